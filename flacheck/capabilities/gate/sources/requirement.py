"""A requirement (PEP 508) as a pin, if it is one of torch or Triton for this Python on Linux."""

import logging
import re
from collections.abc import Iterable
from typing import Any

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from flacheck.capabilities.gate.pins import NAMES, Pin
from flacheck.capabilities.gate.sources.pin_files import PinFile
from flacheck.errors import UsageError

_LOG = logging.getLogger(__name__)

# What PyTorch's own indexes call the Tritons that it builds, of no release of Triton.
_BETWEEN_RELEASES = (
    "pytorch-triton",
    "pytorch-triton-rocm",
    "pytorch-triton-xpu",
    "triton-nightly",
)
# Triton exists for Linux only, so a pin is looked at as it holds there.
_LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}

# packaging says what a requirement holds, not where its specifier stands: after the name and its
# extras, up to a marker, an address or the end, with or without parentheses.
_REQUIREMENT = re.compile(
    r"(?P<name>\s*[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?)"
    r"(?:\s*\(?\s*(?P<specifier>[^;@()\s](?:[^;@()]*[^;@()\s])?))?"
)
_ARCHIVE = re.compile(r"([^/\\#?\s]+\.(?:whl|tar\.gz|zip))")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def parsed(text: str, where: str) -> Requirement:
    """The requirement; a UsageError that begins with `where` (file and line) when it is none."""
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        # The lines after the first draw a pointer into the text.
        said = str(error).partition("\n")[0]
        raise UsageError(
            f"{where}: {text.strip()!r} is no requirement: {said}; write NAME>=VERSION,<VERSION"
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
    """The pin that a requirement is, if any. `start` is the offset of its text in the file, None
    where it cannot be edited; `keys` lead to the string in TOML that holds it."""
    name, where = canonicalize_name(requirement.name), file.where(line)
    if name not in (*NAMES, *_BETWEEN_RELEASES) or not holds(requirement.marker, where):
        return None
    if name in _BETWEEN_RELEASES:
        why = "is a Triton between two releases, which no index lists; it is left out"
        _LOG.warning(f"{where}: {name} {why}")
        return None
    if requirement.url:
        return of_url(requirement.url, name, file, line)
    span = specifier_span(text)
    original_text = text[span[0] : span[1]]
    specifier = re.sub(r"\s+", "", original_text)
    if start is None:
        obstacle = "it is written in several pieces"
        return Pin(
            file.shown,
            line,
            name,
            specifier,
            obstacle=obstacle,
            original_text=original_text,
            keys=keys,
        )
    in_file = (start + span[0], start + span[1])
    return Pin(file.shown, line, name, specifier, in_file, original_text, keys=keys)


def specifier_span(text: str) -> tuple[int, int]:
    """Where the specifier stands in a valid requirement; an empty span where one would be put."""
    match = _REQUIREMENT.match(text)
    assert match is not None
    if match["specifier"]:
        return match.span("specifier")
    place = len(match["name"].rstrip())
    return place, place


def of_url(url: str, name: str, file: PinFile, line: int | None) -> Pin:
    """The pin by an address: a wheel or an sdist names its version, any other may be any."""
    obstacle = "it is an address"
    archive = _ARCHIVE.search(url)
    if archive:
        # The plus of a build is written so in an address.
        version = _version(archive[1].replace("%2B", "+"), name)
        if version:
            return Pin(file.shown, line, name, f"=={version}", obstacle=obstacle)
    why = "names no version and flacheck does not fetch it: every release is assumed"
    _LOG.warning(f"{file.where(line)}: the address of {name} {why}")
    return Pin(file.shown, line, name, "", obstacle=obstacle)


def holds(marker: Any, where: str, extras: Iterable[str] = ("",)) -> bool:
    """Whether a marker (parsed, a text, or none) is true for any of the extras, "" being none.
    Raises UsageError, beginning with `where`, for what is no marker or cannot be evaluated."""
    if not marker:
        return True
    try:
        parsed_marker = Marker(str(marker))
        return any(parsed_marker.evaluate({**_LINUX, "extra": extra}) for extra in extras)
    except InvalidMarker:
        raise UsageError(f"{where}: {marker!r} is no environment marker") from None
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        why = f"the marker {str(marker)!r} cannot be evaluated: {error}"
        raise UsageError(f"{where}: {why}") from None


def may_hold(marker: Any, where: str) -> bool:
    """The same for a lock, which writes extras and groups that may be chosen into its markers."""
    if not isinstance(marker, str):
        return holds(marker, where)
    try:
        Marker(marker)
    except InvalidMarker:
        # uv writes what is newer than the grammar of an older packaging.
        return True
    return holds(marker, where, ["", *_EXTRA.findall(marker)])


def _version(archive: str, name: str) -> str | None:
    """The version in a distribution's file name; None for the archive of a branch or a tag."""
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
