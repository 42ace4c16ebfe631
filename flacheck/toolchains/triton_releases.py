"""Triton's releases, their wheels for this Python and their targets."""

import platform
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.tables import table
from flacheck.tables.targets import TARGETS
from flacheck.toolchains import cache, connections, index, torch_pins
from flacheck.toolchains.base import Choice, Resolution

NAME = "triton"
OLDEST = Version("3.0.0")

# The first release with a target; all others are in every release from 3.0.0 to 3.9.0. Determined
# by compiling a copy and a dot for each release and target: before 3.3.0 sm100 and sm120 end in
# ptxas's "is not defined for option 'gpu-name'" or getMMAVersionSafe's assertion, before 3.2.0
# gfx950 in "unsupported target". (3.3.0 still asserts in dots for sm120: that is a failure, since
# its other kernels compile.) Before 3.6.0 sm103 and sm121, before 3.7.0 sm110, end in that
# assertion, in "Cannot select: intrinsic" of LLVM or in the same message of ptxas.
FIRST_RELEASE = {
    "sm100": Version("3.3.0"),
    "sm103": Version("3.6.0"),
    "sm110": Version("3.7.0"),
    "sm120": Version("3.3.0"),
    "sm121": Version("3.6.0"),
    "gfx950": Version("3.2.0"),
}


def _shipped_rows() -> dict[Version, dict[str, Any]]:
    return {Version(text): row for text, row in table("triton_releases")["releases"].items()}


def missing_wheel_reason(version: Version) -> str | None:
    """Return the reason why a release of the shipped table lacks a wheel here."""
    if platform.system() != "Linux":
        return _no_wheel_reason()
    row = _shipped_rows()[version]
    (first, last), machines = row["python"], row["machines"]
    machine = cache.python_tag().partition("-")[2] or "x86_64"
    if machine not in machines:
        return f"no wheel for {machine} (only {', '.join(machines)})"
    if not first <= python_minor() <= last:
        return f"{_no_wheel_reason()} (only 3.{first} to 3.{last})"
    return None


def _no_wheel_reason() -> str:
    if platform.system() != "Linux":
        return (
            f"no wheel for {platform.system()}; Triton's wheels are for Linux: work there, in a"
            " container for example"
        )
    return f"no wheel for CPython 3.{python_minor()}"


def python_minor() -> int:
    return sys.version_info.minor


def release(version: Version, reason: str | None = None) -> Choice:
    unsupported = refusals(version)
    return Choice(NAME, str(version), f"{NAME}=={version}", "cache", None, reason, unsupported)


def refusals(version: Version) -> dict[str, str]:
    """Return the targets that a version does not support → the reason."""
    reasons = {}
    for target, first in FIRST_RELEASE.items():
        if target in TARGETS and Version(version.base_version) < first:
            reasons[target] = f"Triton {version} does not support {target} (from {first} on)"
    return reasons


def list_cached() -> list[Version]:
    """Return the releases in the cache for this Python, without builds from wheel files."""
    versions = []
    for shelf in cache.shelves("toolchains"):
        version = shelf.manifest.get("version")
        is_release = shelf.manifest.get("identity") == f"{NAME}=={version}"
        if is_release and shelf.path.name.endswith(suffix()):
            versions.append(str(version))
    return index.parse_versions(versions)


def suffix() -> str:
    return f"-{cache.python_tag()}"


def known_releases() -> list[str]:
    """Return every release in the shipped table or the stored index, oldest first.

    It does not read the index.
    """
    versions = set(_shipped_rows())
    for page in cache.read_json(f"index/{NAME}.json").values():
        versions.update(index.parse_versions(page["versions"]))
    return [str(version) for version in sorted(versions) if version >= OLDEST]


def here() -> tuple[list[Version], tuple[str, ...]]:
    """Return releases with a wheel for this Python, and a warning if the index is unreadable."""
    try:
        available, warnings = index.available(NAME), ()
    except ToolchainError as error:
        versions = {v for v in _shipped_rows() if missing_wheel_reason(v) is None} | set(
            list_cached()
        )
        # Some indexes may have answered while another did not.
        versions.update(v for v in getattr(error, "versions", ()) if v >= OLDEST)
        return sorted(versions), (f"{error}; using flacheck's own table of releases",)
    return [v for v in available if v >= OLDEST], warnings


def newest() -> Resolution:
    """Return the newest release with a wheel for this Python; without an index, of the cache.

    Raises ToolchainError if there is none.
    """
    versions: list[Version] = []
    warnings: tuple[str, ...] = ()
    if not connections.is_offline():
        versions, warnings = here()
    cached_versions = list_cached()
    if connections.has_no_index():
        versions = cached_versions
    if not versions:
        raise ToolchainError(_no_release_at_all())
    version = versions[-1]
    place = "which is fetched into flacheck's cache"
    if version in cached_versions:
        place = "from flacheck's cache"
    note = f"no {NAME} is installed: taking its newest release, {NAME}=={version}, {place}"
    return Resolution((release(version),), (*warnings, note))


def _no_release_at_all() -> str:
    problem = f"no {NAME} is installed or in flacheck's cache, and"
    if connections.is_offline():
        return f"{problem} --offline forbids a download: leave it out once, or `pip install {NAME}`"
    if connections.has_no_index():
        return f"{problem} no package index answers: check the network and the index settings"
    return f"{problem} the package index has {_no_wheel_reason()}"


def matching(specifiers: SpecifierSet) -> Resolution:
    """Return the releases that specifiers allow, and a warning for each without a wheel here."""
    there, warnings = here()
    versions = sorted({*there, *_shipped_rows()})
    matching_versions = [version for version in versions if version in specifiers]
    if not matching_versions:
        reject_torch_versions(str(specifiers), specifiers)
        if warnings:
            raise ToolchainError(
                f"flacheck's table has no {NAME} that matches {specifiers}: {warnings[0]}"
            )
        raise UsageError(
            f"no release of {NAME} matches {specifiers}; there are {_join_versions(versions)}"
        )
    choices = []
    absent = []
    cached_versions = list_cached()
    for version in matching_versions:
        if connections.has_no_index() and version not in cached_versions:
            absent.append(version)
        elif version in there:
            choices.append(release(version))
        else:
            reason = missing_wheel_reason(version) or _no_wheel_reason()
            warnings += (f"{NAME} {version} is left out: {reason}",)
    if absent and not choices:
        raise ToolchainError(f"no {NAME} that matches {specifiers} {_why_absent()}")
    if absent:
        warnings += (f"{NAME} {_join_versions(absent)} left out: none of them {_why_absent()}",)
    return Resolution(tuple(choices), warnings)


def _why_absent() -> str:
    """Return why releases that are not in the cache cannot be installed now."""
    why = "no package index answers"
    if connections.is_offline():
        why = "--offline forbids an installation"
    return f"is installed, and {why} (`flacheck toolchain list` shows what is installed)"


def exact(version: Version) -> Choice:
    """Return a release by its version, from the shipped table or the cache before any index."""
    if version < OLDEST:
        reject_torch_versions(str(version), SpecifierSet(f"=={version}.*"))
        raise UsageError(f"flacheck supports {NAME} {OLDEST} and newer, not {version}")
    if version.local or version.is_prerelease:
        raise UsageError(
            f"{NAME} {version} is a build between two releases, which the index does not list: "
            "name its wheel file or its folder (--toolchain PATH), or a release "
            f"(--{NAME} {version.base_version})"
        )
    for listed_version in _shipped_rows():
        if listed_version == version:
            return release(listed_version, missing_wheel_reason(listed_version))
    if version in list_cached() or index.has(NAME, version):
        return release(version)
    # It may have a wheel for another Python (the shipped table has the older releases).
    for minor in range(12, 15):
        if minor != python_minor() and index.has(NAME, version, f"3.{minor}"):
            return release(version, _no_wheel_reason())
    there = index.available(NAME)
    near = _join_versions(index.near(version, sorted({*there, *_shipped_rows()})))
    raise UsageError(f"there is no {NAME} {version}; the nearest are {near}")


def reject_torch_versions(text: str, specifiers: SpecifierSet) -> None:
    """Raise UsageError for version numbers of torch that no Triton release has."""
    torch = [release for release in torch_pins.pins() if release in specifiers]
    if torch:
        raise UsageError(
            f"there is no {NAME} {text}, but there is torch {', '.join(torch)}: did you mean "
            f"--torch {shlex.quote(text)}, the {NAME} releases that torch requires?"
        )


def _join_versions(versions: Sequence[Version]) -> str:
    return ", ".join(str(v) for v in versions if v >= OLDEST) or "none"
