"""One requirement as text (PEP 508) → a pin, if it is one of torch or Triton that holds here."""

from __future__ import annotations

import re
from collections.abc import Callable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from flacheck.errors import UsageError
from flacheck.gate.pinned import NAMES, Pin

# Triton exists for Linux only, so a pin is looked at as it holds there.
LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}

_HEAD = re.compile(r"\s*[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?")
_SPECIFIER = re.compile(r"\s*\(?\s*([^;@()\s](?:[^;@()]*[^;@()\s])?)")
_WHEEL = re.compile(r"([^/\\#?\s]+\.whl)")
_NOT_ASKED = "flacheck does not fetch it"


def parsed(text: str, where: str) -> Requirement:
    """The requirement; a UsageError that begins with `where` (file and line) when it is none."""
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        said = str(error).partition("\n")[0]
        raise UsageError(f"{where}: {text.strip()!r} is no requirement: {said}; write NAME>=VERSION,<VERSION") from None


def holds(requirement: Requirement) -> bool:
    """Whether its environment marker is true for this Python on Linux."""
    return requirement.marker is None or requirement.marker.evaluate(LINUX)


def pin(
    requirement: Requirement,
    text: str,
    file: str,
    line: int,
    warn: Callable[[str], None],
    *,
    start: int | None = 0,
    keys: tuple[str | int, ...] | None = None,
) -> Pin | None:
    """The pin that a requirement is. `start` is the offset of its text in the file, None where it cannot be edited;
    of a string in a TOML file `keys` lead to it instead."""
    name = canonicalize_name(requirement.name)
    if name not in NAMES or not holds(requirement):
        return None
    if requirement.url:
        return of_url(requirement.url, name, file, line, warn)
    span = specifier_span(text)
    written = text[span[0] : span[1]] if span else str(requirement.specifier)
    place = (start + span[0], start + span[1]) if span and start is not None else None
    specifier = re.sub(r"\s+", "", written)
    return Pin(file, line, name, specifier, place, written, None if place else "it is written in several pieces", keys)


def specifier_span(text: str) -> tuple[int, int] | None:
    """Where the specifier stands in a requirement; an empty span where one would be put."""
    head = _HEAD.match(text)
    if head is None:
        return None
    found = _SPECIFIER.match(text, head.end())
    return found.span(1) if found else (len(text[: head.end()].rstrip()),) * 2


def of_url(url: str, name: str, file: str, line: int, warn: Callable[[str], None]) -> Pin:
    """A wheel's address names its version; anything else could be any, and the user is told so."""
    found = _WHEEL.search(url)
    try:
        version = str(parse_wheel_filename(found[1].replace("%2B", "+"))[1]) if found else None
    except InvalidWheelFilename:
        version = None
    if version is None:
        warn(f"{file}:{line}: the address of {name} names no version and {_NOT_ASKED}: every release is assumed")
    return Pin(file, line, name, f"=={version}" if version else "", obstacle="it is an address")
