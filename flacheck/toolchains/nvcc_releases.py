"""The releases of CUDA toolkits, their packages and their targets."""

import re
from collections.abc import Iterable, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.tables import table
from flacheck.tables.targets import TARGETS
from flacheck.toolchains import index
from flacheck.toolchains.base import Choice, Resolution

NAME = "nvcc"
# Older toolkits lack a front end on the package index.
OLDEST = Version("13.0")
_DISTRIBUTION = "nvidia-cuda-nvcc"
# The first architectures with features that only one GPU (`sm90a`), or its family (`sm100f`), has.
_FIRST_OWN, _FIRST_FAMILY = 90, 100
# A version of two numbers means all of its patch releases.
_MINOR = re.compile(r"(?:={2,3}\s*)?(\d+\.\d+)")


def shipped_versions() -> list[Version]:
    """Return every release of the shipped table, oldest first."""
    return sorted(map(Version, table("nvcc_releases")["releases"]))


def here() -> tuple[list[Version], tuple[str, ...]]:
    """Return the available releases, and a warning if the index could not be read."""
    warnings: tuple[str, ...] = ()
    try:
        versions: Sequence[Version] = index.available(_DISTRIBUTION)
    except ToolchainError as error:
        versions = getattr(error, "versions", ())
        warnings = (f"{error}; using flacheck's own table of releases",)
    return sorted({*shipped_versions(), *(v for v in versions if v >= OLDEST)}), warnings


def newest_of_minors(versions: Iterable[Version]) -> list[Version]:
    """Return the last patch release of each minor version, oldest first.

    This is the usual meaning of 13.1.
    """
    newest: dict[tuple[int, int], Version] = {}
    for version in sorted(versions):
        newest[version.major, version.minor] = version
    return sorted(newest.values())


def matching(specifiers: SpecifierSet) -> Resolution:
    """Return the newest patch release of each minor version that specifiers allow."""
    versions = [version for version in shipped_versions() if version in specifiers]
    warnings: tuple[str, ...] = ()
    # The index is read if nothing in the table matches, or if newer releases would match too.
    if not versions or Version(f"{versions[-1].major + 1}.0") in specifiers:
        all_versions, warnings = here()
        versions = [version for version in all_versions if version in specifiers]
    if not versions and warnings:
        raise ToolchainError(
            f"flacheck's table has no {NAME} that matches {specifiers}: {warnings[0]}"
        )
    if not versions:
        there = ", ".join(map(str, shipped_versions()))
        raise UsageError(
            f"no release of {NAME} matches {specifiers}; there are {there}{_older_toolkits_hint()}"
        )
    return Resolution(tuple(map(release, newest_of_minors(versions))), warnings)


def resolve(spec: str) -> Resolution:
    """Return the toolkits for a specification.

    An exact version (13.1.115) is one toolkit; 13.1, a wildcard or bounds stand for the newest
    patch release of each minor version.
    """
    minor = _MINOR.fullmatch(spec.strip())
    if minor:
        return matching(SpecifierSet(f"=={minor[1]}.*"))
    plain = spec.removeprefix("===").removeprefix("==").strip()
    is_exact = spec.startswith("==") and not plain.endswith("*") and "," not in plain
    if is_exact or spec[:1] not in "<>=!~":
        return Resolution((exact(Version(plain if is_exact else spec)),))
    return matching(SpecifierSet(spec))


def exact(version: Version) -> Choice:
    """Return a release by its version, from the shipped table before the index."""
    if version in shipped_versions() or (version >= OLDEST and index.has(_DISTRIBUTION, version)):
        return release(version)
    near = ", ".join(map(str, index.near(version, shipped_versions())))
    raise UsageError(
        f"there is no {NAME} {version}; the nearest are {near}{_older_toolkits_hint()}"
    )


def _older_toolkits_hint() -> str:
    return "; of older toolkits the package index has no nvcc: name one by its folder"


def release(version: Version) -> Choice:
    """Return a release from the index."""
    unsupported = refusals(f"{NAME} {version}", _architectures(version))
    return Choice(NAME, str(version), f"{NAME}=={version}", "cache", unsupported=unsupported)


def _architectures(version: Version) -> list[int]:
    """Return the architectures of the table's nearest minor version that is not newer."""
    rows = table("nvcc_releases")["targets"]
    minors = sorted(map(Version, rows))
    below = [minor for minor in minors if minor <= version]
    architectures: list[int] = rows[str(below[-1])]
    return architectures


def refusals(name: str, architectures: Iterable[int]) -> dict[str, str]:
    """Return flacheck's targets that a compiler does not support, with the reasons.

    `architectures` are those that it lists (90 for sm90).
    """
    numbers = set(architectures)
    reasons = {}
    for target, row in TARGETS.items():
        if row.backend != "cuda":
            reasons[target] = f"{name} compiles for NVIDIA's GPUs only"
            continue
        number = int(row.arch)
        for suffix, first in (("", 0), ("a", _FIRST_OWN), ("f", _FIRST_FAMILY)):
            if number not in numbers:
                reasons[target + suffix] = f"{name} does not support {target}"
            elif number < first:
                reasons[target + suffix] = f"{target} has no features that {target}{suffix} names"
    return reasons


def requirements(version: Version) -> list[str]:
    """Return the requirements of a release, at exact versions if the table has them."""
    row = table("nvcc_releases")["releases"].get(str(version))
    if row is None:
        # The metadata of a toolkit newer than this flacheck lists its packages.
        minor = f"{version.major}.{version.minor}"
        return [
            f"{_DISTRIBUTION}=={version}",
            f"cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]=={minor}.*",
        ]
    own = [f"{name}=={version}" for name in (_DISTRIBUTION, "nvidia-nvvm", "nvidia-cuda-crt")]
    return [*own, f"nvidia-cuda-runtime=={row['runtime']}", f"nvidia-cuda-cccl=={row['cccl']}"]
