"""CUDA toolkits: which there are, what belongs to each, and which targets each knows."""

import re
from collections.abc import Callable, Iterable, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.tables import table
from flacheck.tables.targets import TARGETS
from flacheck.toolchains import index
from flacheck.toolchains.base import Choice, Resolution

NAME = "nvcc"
# Older toolkits have no front end on the package index.
OLDEST = Version("13.0")
_DISTRIBUTION = "nvidia-cuda-nvcc"
# The first architectures with features that only one GPU (`sm90a`), or its family (`sm100f`), has.
_FIRST_OWN, _FIRST_FAMILY = 90, 100
# A version of two numbers: all of its patch releases are meant.
_MINOR = re.compile(r"(?:={2,3}\s*)?(\d+\.\d+)")


def shipped_versions() -> list[Version]:
    """Every release of the shipped table, oldest first."""
    return sorted(Version(text) for text in table("nvcc_releases")["releases"])


def here() -> tuple[list[Version], tuple[str, ...]]:
    """The releases that can be had, and a warning when the index could not be asked."""
    warnings: tuple[str, ...] = ()
    try:
        versions: Sequence[Version] = index.available(_DISTRIBUTION)
    except ToolchainError as error:
        versions = getattr(error, "versions", ())
        warnings = (f"{error}; going by the releases that flacheck knows of",)
    return sorted({*shipped_versions(), *(v for v in versions if v >= OLDEST)}), warnings


def newest_of_minors(versions: Iterable[Version]) -> list[Version]:
    """The last patch release of each minor version, oldest first: what people mean by 13.1."""
    newest: dict[tuple[int, int], Version] = {}
    for version in sorted(versions):
        newest[version.major, version.minor] = version
    return sorted(newest.values())


def matching(specifiers: SpecifierSet) -> Resolution:
    """The newest patch release of each minor version that specifiers allow."""
    versions = [version for version in shipped_versions() if version in specifiers]
    warnings: tuple[str, ...] = ()
    # The index is asked where the table cannot answer, or where newer releases would match too.
    if not versions or Version(f"{versions[-1].major + 1}.0") in specifiers:
        listed, warnings = here()
        versions = [version for version in listed if version in specifiers]
    if not versions and warnings:
        raise ToolchainError(f"flacheck knows no {NAME} that matches {specifiers}: {warnings[0]}")
    if not versions:
        there = ", ".join(map(str, shipped_versions()))
        raise UsageError(f"no release of {NAME} matches {specifiers}; there are {there}{_older()}")
    return Resolution(tuple(release(each) for each in newest_of_minors(versions)), warnings)


def resolve_spec(
    spec: str,
    matching: Callable[[SpecifierSet], Resolution],
    exact: Callable[[Version], Choice],
) -> Resolution:
    """An exact version (13.1.115) is one toolkit; 13.1, a wildcard or bounds stand for the newest
    patch release of each minor version."""
    minor = _MINOR.fullmatch(spec.strip())
    if minor:
        return matching(SpecifierSet(f"=={minor[1]}.*"))
    plain = spec.removeprefix("===").removeprefix("==").strip()
    is_exact = spec.startswith("==") and not plain.endswith("*") and "," not in plain
    if is_exact or spec[:1] not in "<>=!~":
        return Resolution((exact(Version(plain if is_exact else spec)),))
    return matching(SpecifierSet(spec))


def exact(version: Version) -> Choice:
    """A release by its version, from the shipped table before the index is asked."""
    if version in shipped_versions() or (version >= OLDEST and index.has(_DISTRIBUTION, version)):
        return release(version)
    near = ", ".join(map(str, index.near(version, shipped_versions())))
    raise UsageError(f"there is no {NAME} {version}; the nearest are {near}{_older()}")


def _older() -> str:
    return (
        "; of older toolkits the package index has no nvcc: name one by its folder, or compile code"
        " of the device alone (nvrtc==12.4)"
    )


def release(version: Version) -> Choice:
    """A release from the index."""
    refused = refusals(f"{NAME} {version}", _listed(version))
    return Choice(NAME, str(version), f"{NAME}=={version}", "cache", unsupported=refused)


def _listed(version: Version) -> list[int]:
    """The architectures of the nearest minor version of the table that is not newer."""
    rows = table("nvcc_releases")["targets"]
    minors = sorted(map(Version, rows))
    below = [minor for minor in minors if minor <= version]
    listed: list[int] = rows[str(below[-1])]
    return listed


def refusals(name: str, known: Iterable[int], families: bool = True) -> dict[str, str]:
    """The targets that a compiler does not know, of those that flacheck has, with the reason.

    `known` are the architectures that it lists (90 for sm90); `families` says whether it knows
    features of a family (`sm100f`), too.
    """
    numbers = set(known)
    refused = {}
    for target, row in TARGETS.items():
        if row.backend != "cuda":
            refused[target] = f"{name} compiles for NVIDIA's GPUs only"
            continue
        number = int(row.arch)
        for suffix, first in (("", 0), ("a", _FIRST_OWN), ("f", _FIRST_FAMILY)):
            if number not in numbers:
                refused[target + suffix] = f"{name} does not know {target}"
            elif suffix == "f" and not families:
                refused[target + suffix] = f"{name} does not know {target}f"
            elif number < first:
                refused[target + suffix] = f"{target} has no features that {target}{suffix} names"
    return refused


def requirements(version: Version) -> list[str]:
    """What to install for a release, each at an exact version where the table says it."""
    row = table("nvcc_releases")["releases"].get(str(version))
    if row is None:
        # Its own metadata names what belongs to a toolkit that came after this flacheck.
        minor = f"{version.major}.{version.minor}"
        return [
            f"{_DISTRIBUTION}=={version}",
            f"cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]=={minor}.*",
        ]
    own = [f"{name}=={version}" for name in (_DISTRIBUTION, "nvidia-nvvm", "nvidia-cuda-crt")]
    others = {"nvidia-cuda-runtime": row["runtime"], "nvidia-cuda-cccl": row["cccl"]}
    return own + [f"{name}=={pinned}" for name, pinned in others.items()]
