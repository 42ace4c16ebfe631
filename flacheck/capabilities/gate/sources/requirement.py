"""Pins of torch and Triton in PEP 508 requirements, for this Python on Linux."""

import logging
import re
from collections.abc import Iterable
from typing import Any

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from flacheck.capabilities.gate.pins import Pin
from flacheck.capabilities.gate.sources.pin_files import PinFile
from flacheck.errors import UsageError

_LOG = logging.getLogger(__name__)

# Distributions on PyTorch's own indexes with Triton builds between two releases, for CUDA and for
# other devices.
_FOR_CUDA = ("pytorch-triton", "triton-nightly")
_BETWEEN_RELEASES = (
    *_FOR_CUDA,
    "pytorch-triton-rocm",
    "pytorch-triton-xpu",
)
# Triton exists for Linux only, so markers are evaluated for Linux.
_LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}

# packaging returns the parts of a requirement without their offsets. The specifier is after the
# name and extras, up to a marker, an address or the end, with or without parentheses.
_REQUIREMENT = re.compile(
    r"(?P<name>\s*[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?)"
    r"(?:\s*\(?\s*(?P<specifier>[^;@()\s](?:[^;@()]*[^;@()\s])?))?"
)
_ARCHIVE = re.compile(r"([^/\\#?\s]+\.(?:whl|tar\.gz|zip))")
_EXACT = re.compile(r"={2,3}[^*,]+")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def parse(text: str, where: str) -> Requirement:
    """Return the parsed requirement.

    Raises:
        UsageError: If the text is invalid; the message begins with `where` (file and line).
    """
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        # The other lines of the message draw a pointer into the text.
        why = str(error).partition("\n")[0]
        raise UsageError(
            f"{where}: {text.strip()!r} is not a requirement: {why}; write NAME>=VERSION,<VERSION"
        ) from None


def pin(
    requirement: Requirement,
    text: str,
    file: PinFile,
    line: int | None,
    *,
    start: int | None = 0,
    keys: tuple[str | int, ...] | None = None,
) -> Pin | None:
    """Return the pin of a requirement; None if it has none for this environment.

    Args:
        requirement: The parsed requirement.
        text: Its text.
        file: The file that it is in.
        line: Its line.
        start: The offset of the text in the file; None if it cannot be edited there.
        keys: The path of the TOML string that holds it.
    """
    name, where = canonicalize_name(requirement.name), file.where(line)
    is_build = name in _BETWEEN_RELEASES and "triton" in file.names
    if not (is_build or name in file.names) or not holds(requirement.marker, where):
        return None
    if is_build and name in _FOR_CUDA and _EXACT.fullmatch(str(requirement.specifier)):
        # No range can be read so: these builds are between two releases of Triton.
        build = str(requirement.specifier)
        return Pin(file.display_name, line, "triton", build, obstacle=f"it is a build of {name}")
    if is_build:
        why = "is a Triton between two releases, which no index lists; it is left out"
        _LOG.warning(f"{where}: {name} {why}")
        return None
    if requirement.url:
        return of_url(requirement.url, name, file, line)
    span = specifier_span(text)
    original = text[span[0] : span[1]]
    specifier = re.sub(r"\s+", "", original)
    in_file = obstacle = None
    if start is None:
        obstacle = "it is written in several pieces"
    else:
        in_file = (start + span[0], start + span[1])
    return Pin(file.display_name, line, name, specifier, in_file, original, obstacle, keys)


def specifier_span(text: str) -> tuple[int, int]:
    """Return the span of the specifier in a valid requirement; empty where one could be added."""
    match = _REQUIREMENT.match(text)
    assert match is not None
    if match["specifier"]:
        return match.span("specifier")
    end = len(match["name"].rstrip())
    return end, end


def of_url(url: str, name: str, file: PinFile, line: int | None) -> Pin:
    """Return the pin of an address; only the name of a wheel or sdist gives the version."""
    obstacle = "it is an address"
    archive = _ARCHIVE.search(url)
    if archive:
        # %2B is the escaped plus sign of a build.
        version = _version(archive[1].replace("%2B", "+"), name)
        if version:
            return Pin(file.display_name, line, name, f"=={version}", obstacle=obstacle)
    why = "names no version and flacheck does not fetch it: every release is assumed"
    _LOG.warning(f"{file.where(line)}: the address of {name} {why}")
    return Pin(file.display_name, line, name, "", obstacle=obstacle)


def holds(marker: Any, where: str, extras: Iterable[str] = ("",)) -> bool:
    """Return True if a marker is true for one of the extras, "" for none; no marker is true.

    Raises:
        UsageError: If the marker is invalid; the message begins with `where`.
    """
    if not marker:
        return True
    try:
        parsed_marker = Marker(str(marker))
        return any(parsed_marker.evaluate({**_LINUX, "extra": extra}) for extra in extras)
    except InvalidMarker:
        raise UsageError(f"{where}: {marker!r} is not an environment marker") from None
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        why = f"the marker {str(marker)!r} cannot be evaluated: {error}"
        raise UsageError(f"{where}: {why}") from None


def may_hold(marker: Any, where: str) -> bool:
    """Return True if a marker of a lock holds with some of the extras and groups in it."""
    if not isinstance(marker, str):
        return holds(marker, where)
    try:
        Marker(marker)
    except InvalidMarker:
        # uv writes markers that are newer than the grammar of an older packaging.
        return True
    return holds(marker, where, ["", *_EXTRA.findall(marker)])


def _version(archive: str, name: str) -> str | None:
    """Return the version in a distribution's file name; None for an archive of a branch or tag."""
    try:
        if archive.endswith(".whl"):
            distribution, version = parse_wheel_filename(archive)[:2]
        else:
            distribution, version = parse_sdist_filename(archive)
    except ValueError:
        return None
    if distribution != name:
        return None
    return str(version)
