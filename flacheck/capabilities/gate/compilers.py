"""Which compilers a gate can judge, and by what name files pin each."""

from dataclasses import dataclass

from flacheck.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class GatedCompiler:
    """`family` is its name as a toolchain, `distribution` what files pin, `spoken` how sentences
    call it."""

    family: str
    distribution: str
    spoken: str

    def toolchain(self, release: str) -> str:
        """`nvcc==13.0.88`."""
        return f"{self.family}=={release}"


TRITON = GatedCompiler("triton", "triton", "Triton")
NVCC = GatedCompiler("nvcc", "nvidia-cuda-nvcc", "nvcc")
GATED = {compiler.family: compiler for compiler in (TRITON, NVCC)}


def find_compiler(family: str) -> GatedCompiler:
    """A compiler by the name of its family; UsageError where no file pins it."""
    if family not in GATED:
        hint = did_you_mean(family, GATED)
        raise UsageError(
            f"gate judges what files pin of {' or '.join(GATED)}, not of {family!r}{hint}"
        )
    return GATED[family]
