"""The nvrtc family: the run-time compiler of the 12.x toolkits.

It compiles device code alone, and it is the only C++ compiler of these toolkits in the package
index.
"""

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
# The places of headers in the wheels of the 12.x toolkits. That of nvcc holds those which headers
# of the run time include and an assembler, but no front end.
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

    def options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the standard; the host compiler does not matter here."""
        for option in options:
            if option not in ("std", "host"):
                hint = did_you_mean(option, ("std",))
                raise UsageError(f"unknown option {option!r} of {NAME}; the option is std{hint}")
        standard = str(options.get("std", _STANDARD))
        if standard not in _STANDARDS:
            raise UsageError(f"std {standard!r}: {NAME} allows {', '.join(_STANDARDS)}")
        return {"std": standard}

    def versions(self) -> Resolution:
        return Resolution(tuple(map(_make_choice, releases.newest_of_minors(_shipped_versions()))))

    def resolve(self, spec: str) -> Resolution:
        return releases.resolve_spec(spec, _matching, _exact)

    def find_installed(self) -> Choice:
        raise ToolchainError(
            f"flacheck takes {NAME} from the package index only: ask for a release"
            f" (--toolchain {NAME}==12.4), or for the machine's whole toolkit (nvcc==installed)"
        )

    def holds(self, path: str) -> bool:
        """Return False: a folder with a toolkit belongs to nvcc."""
        return False

    def at(self, path: str) -> Choice:
        raise UsageError(f"{path}: {NAME} is named by its version, {NAME}==12.4")

    def provide(self, choice: Choice) -> Toolchain:
        shelf = filling.fill(_folder(choice), lambda into: _download(choice, into))
        changed_file = identity.find_damaged_file(shelf.path)
        if changed_file:
            raise identity.damaged(choice.identity, f"{shelf.path} ({changed_file})")
        includes = [str(shelf.path / "nvidia" / name / "include") for name in _HEADERS]
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
                "includes": includes,
                "programs": host_compilers.find_programs("c++filt"),
            },
            fills_memory=True,
        )


def _minors() -> Mapping[str, Any]:
    minors: Mapping[str, Any] = table("nvrtc_releases")["minors"]
    return minors


def _shipped_versions() -> list[Version]:
    """Return every release of the shipped table, oldest first."""
    versions: list[Version] = []
    for minor in _minors().values():
        versions += map(Version, minor["releases"])
    return sorted(versions)


def _find_minor(version: Version) -> Mapping[str, Any]:
    minor: Mapping[str, Any] = _minors()[f"{version.major}.{version.minor}"]
    return minor


def _matching(specifiers: SpecifierSet) -> Resolution:
    """Return the newest patch release of each minor version that specifiers allow."""
    versions = [version for version in _shipped_versions() if version in specifiers]
    if not versions:
        raise UsageError(f"no release of {NAME} matches {specifiers}; {_list_releases()}")
    return Resolution(tuple(map(_make_choice, releases.newest_of_minors(versions))))


def _exact(version: Version) -> Choice:
    if version not in _shipped_versions():
        raise UsageError(f"there is no {NAME} {version} here; {_list_releases()}")
    return _make_choice(version)


def _list_releases() -> str:
    versions = ", ".join(map(str, _shipped_versions()))
    return (
        f"there are {versions}; of newer toolkits the package index has the whole compiler"
        " (nvcc==13.0)"
    )


def _make_choice(version: Version) -> Choice:
    minor = _find_minor(version)
    unsupported = releases.refusals(
        f"{NAME} {version}", minor["targets"], families=minor.get("families", False)
    )
    return Choice(NAME, str(version), f"{NAME}=={version}", "cache", unsupported=unsupported)


def _folder(choice: Choice) -> Path:
    return cache.root() / "toolchains" / f"{NAME}-{choice.version}-{platform.machine()}"


def _download(choice: Choice, into: Path) -> dict[str, Any]:
    minor = _find_minor(Version(choice.version))
    requirements = [f"nvidia-cuda-nvrtc-cu12=={choice.version}"]
    requirements += [
        f"nvidia-cuda-{name}-cu12=={minor[name]}" for name in ("runtime", "cccl", "nvcc")
    ]
    what = f"{NAME} {choice.version}"
    report = wheels.install(requirements, into, what=what)
    if not (into / _LIBRARY).is_file():
        raise ToolchainError(f"{what} from the index contains no {_LIBRARY}")
    about = {"name": NAME, "version": choice.version, "identity": choice.identity}
    return {**about, **report}
