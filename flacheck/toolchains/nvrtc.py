"""The nvrtc family: the compiler that the 12.x toolkits bring for run time. It compiles code of the
device alone, and is all of these toolkits' C++ that the package index has."""

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.errors import ToolchainError, UsageError, did_you_mean
from flacheck.tables import table, targets
from flacheck.toolchains import cache, filling, host_compilers, identity, wheels
from flacheck.toolchains import nvcc_releases as releases
from flacheck.toolchains.base import Choice, Resolution, Toolchain

NAME = "nvrtc"
STAGES = ("syntax", "ptx", "cubin")
_LIBRARY = Path("nvidia") / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
# Where the wheels of the 12.x toolkits put their headers. That of nvcc holds those which headers of
# the run time include, an assembler, and no front end.
_HEADERS = ("cuda_runtime", "cuda_cccl", "cuda_nvcc")
_STANDARD = "c++17"
_STANDARDS = ("c++11", "c++14", "c++17", "c++20")


class Nvrtc:
    """CUDA's run-time compiler, 12.0 to 12.9."""

    name = NAME
    language = "cuda"
    stages = STAGES

    def target(self, name: str) -> str:
        return targets.cell_target_name(name)

    def options(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The standard; no host compiler has a part in it."""
        for option in given:
            if option not in ("std", "host"):
                hint = did_you_mean(option, ("std",))
                raise UsageError(f"option {option!r} is none of {NAME}'s: std is{hint}")
        standard = str(given.get("std", _STANDARD))
        if standard not in _STANDARDS:
            raise UsageError(f"std {standard!r}: {NAME} allows {', '.join(_STANDARDS)}")
        return {"std": standard}

    def versions(self) -> Resolution:
        return Resolution(tuple(map(_release, releases.newest_of_minors(_known()))))

    def resolve(self, spec: str) -> Resolution:
        return releases.resolve_spec(spec, _matching, _exact)

    def find_installed(self) -> Choice:
        raise ToolchainError(
            f"flacheck takes {NAME} from the package index only: ask for a release"
            f" (--toolchain {NAME}==12.4), or for the machine's whole toolkit (nvcc==installed)"
        )

    def holds(self, path: str) -> bool:
        """None lies in a folder of its own: a toolkit's folder is nvcc's."""
        return False

    def at(self, path: str) -> Choice:
        raise UsageError(f"{path}: {NAME} is named by its version, {NAME}==12.4")

    def provide(self, choice: Choice) -> Toolchain:
        shelf = filling.fill(_folder(choice), lambda into: _download(choice, into))
        damaged = identity.find_damaged_file(shelf.path)
        if damaged:
            raise ToolchainError(
                f"the files of {choice.identity} in {shelf.path} were changed after its"
                f" installation ({damaged}); run `flacheck toolchain remove {choice.identity}`, and"
                " the next scan installs it anew"
            )
        includes = [shelf.path / "nvidia" / name / "include" for name in _HEADERS]
        return Toolchain(
            name=NAME,
            version=choice.version,
            identity=choice.identity,
            origin=choice.origin,
            paths=(str(shelf.path),),
            worker="nvrtc_worker",
            stages=STAGES,
            unsupported=choice.unsupported,
            config={
                "library": str(shelf.path / _LIBRARY),
                "includes": [str(folder) for folder in includes],
                "programs": host_compilers.find_programs("c++filt"),
            },
            fills_memory=True,
        )


def _minors() -> Mapping[str, Any]:
    minors: Mapping[str, Any] = table("nvrtc_releases")["minors"]
    return minors


def _known() -> list[Version]:
    """Every release of the shipped table, oldest first."""
    listed = [text for minor in _minors().values() for text in minor["releases"]]
    return sorted(map(Version, listed))


def _minor_of(version: Version) -> Mapping[str, Any]:
    minor: Mapping[str, Any] = _minors()[f"{version.major}.{version.minor}"]
    return minor


def _matching(specifiers: SpecifierSet) -> Resolution:
    """The newest patch release of each minor version that specifiers allow."""
    versions = [version for version in _known() if version in specifiers]
    if not versions:
        raise UsageError(f"no release of {NAME} matches {specifiers}; {_there()}")
    return Resolution(tuple(map(_release, releases.newest_of_minors(versions))))


def _exact(version: Version) -> Choice:
    if version not in _known():
        raise UsageError(f"there is no {NAME} {version} here; {_there()}")
    return _release(version)


def _there() -> str:
    return (
        f"there are {', '.join(map(str, _known()))}; of newer toolkits the package index has the"
        " whole compiler (nvcc==13.0)"
    )


def _release(version: Version) -> Choice:
    minor = _minor_of(version)
    refused = releases.refusals(
        f"{NAME} {version}", minor["targets"], families=minor.get("families", False)
    )
    return Choice(NAME, str(version), f"{NAME}=={version}", "cache", unsupported=refused)


def _folder(choice: Choice) -> Path:
    return cache.root() / "toolchains" / f"{NAME}-{choice.version}-{platform.machine()}"


def _download(choice: Choice, into: Path) -> dict[str, Any]:
    minor = _minor_of(Version(choice.version))
    wanted = [f"nvidia-cuda-nvrtc-cu12=={choice.version}"]
    wanted += [f"nvidia-cuda-{name}-cu12=={minor[name]}" for name in ("runtime", "cccl", "nvcc")]
    what = f"{NAME} {choice.version}"
    done = wheels.install(wanted, into, what=what, binary_only=(":all:",))
    if not (into / _LIBRARY).is_file():
        raise ToolchainError(f"{what} as the index has it holds no {_LIBRARY}")
    about = {"name": NAME, "version": choice.version, "identity": choice.identity}
    return {**about, **done}
