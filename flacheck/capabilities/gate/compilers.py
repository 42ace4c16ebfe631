"""The compilers that a gate can judge, and the distribution that files pin for each."""

from dataclasses import dataclass

from flacheck.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class GatedCompiler:
    """A compiler whose pins a gate can judge.

    `family` is its name as a toolchain, `distribution` the name that files pin, `spoken` its name
    in sentences.
    """

    family: str
    distribution: str
    spoken: str

    def toolchain(self, release: str) -> str:
        """Return a release as a toolchain, `nvcc==13.0.88`."""
        return f"{self.family}=={release}"


TRITON = GatedCompiler("triton", "triton", "Triton")
NVCC = GatedCompiler("nvcc", "nvidia-cuda-nvcc", "nvcc")
COMPILERS = {compiler.family: compiler for compiler in (TRITON, NVCC)}


def find_compiler(family: str) -> GatedCompiler:
    """Return the compiler of a toolchain family.

    Raises:
        UsageError: If a gate cannot judge that family.
    """
    if family not in COMPILERS:
        hint = did_you_mean(family, COMPILERS)
        raise UsageError(
            f"gate judges what files pin of {' or '.join(COMPILERS)}, not of {family!r}{hint}"
        )
    return COMPILERS[family]
