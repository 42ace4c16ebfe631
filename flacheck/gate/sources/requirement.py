"""One requirement as text (PEP 508) → a pin, if it is one of torch or Triton that holds here."""

from __future__ import annotations

import re
from collections.abc import Callable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from flacheck.errors import UsageError
from flacheck.gate.pinned import NAMES, Pin, place
from flacheck.gate.sources import markers

BETWEEN_RELEASES = ("pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "triton-nightly")

_HEAD = re.compile(r"\s*[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?")
_SPECIFIER = re.compile(r"\s*\(?\s*([^;@()\s](?:[^;@()]*[^;@()\s])?)")
_ARCHIVE = re.compile(r"([^/\\#?\s]+\.(?:whl|tar\.gz|zip))")
_NOT_ASKED = "flacheck does not fetch it"


def parsed(text: str, where: str) -> Requirement:
    """The requirement; a UsageError that begins with `where` (file and line) when it is none."""
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        said = str(error).partition("\n")[0]
        raise UsageError(
            f"{where}: {text.strip()!r} is no requirement: {said}; write NAME>=VERSION,<VERSION"
        ) from None


def holds(requirement: Requirement, where: str) -> bool:
    """Whether its environment marker is true for this Python on Linux."""
    return markers.holds(str(requirement.marker or ""), where)


def pin(
    requirement: Requirement,
    text: str,
    file: str,
    line: int | None,
    warn: Callable[[str], None],
    *,
    start: int | None = 0,
    keys: tuple[str | int, ...] | None = None,
) -> Pin | None:
    """The pin that a requirement is. `start` is the offset of its text in the file, None where it
    cannot be edited; of a string in a TOML file `keys` lead to it instead.
    """
    name, where = canonicalize_name(requirement.name), place(file, line)
    if name not in (*NAMES, *BETWEEN_RELEASES) or not holds(requirement, where):
        return None
    if name in BETWEEN_RELEASES:
        warn(
            f"{where}: {name} is Triton between two releases, of which no index tells; it is left out"
        )
        return None
    if requirement.url:
        return of_url(requirement.url, name, file, line, warn)
    span = specifier_span(text)
    written = text[span[0] : span[1]] if span else str(requirement.specifier)
    stands = (start + span[0], start + span[1]) if span and start is not None else None
    specifier = re.sub(r"\s+", "", written)
    return Pin(
        file,
        line,
        name,
        specifier,
        stands,
        written,
        None if stands else "it is written in several pieces",
        keys,
    )


def specifier_span(text: str) -> tuple[int, int] | None:
    """Where the specifier stands in a requirement; an empty span where one would be put."""
    head = _HEAD.match(text)
    if head is None:
        return None
    found = _SPECIFIER.match(text, head.end())
    return found.span(1) if found else (len(text[: head.end()].rstrip()),) * 2


def of_url(url: str, name: str, file: str, line: int | None, warn: Callable[[str], None]) -> Pin:
    """The address of a wheel or an sdist names its version; any other could be any, and the user is
    told so.
    """
    found = _ARCHIVE.search(url)
    version = _version(found[1].replace("%2B", "+"), name) if found else None
    if version is None:
        warn(
            f"{place(file, line)}: the address of {name} names no version and {_NOT_ASKED}: every release is assumed"
        )
    return Pin(file, line, name, f"=={version}" if version else "", obstacle="it is an address")


def _version(archive: str, name: str) -> str | None:
    """The version in the name of a distribution's file; none in that of a branch's or tag's
    archive.
    """
    try:
        found = (
            parse_wheel_filename(archive)
            if archive.endswith(".whl")
            else parse_sdist_filename(archive)
        )
    except ValueError:
        return None
    return str(found[1]) if found[0] == name else None
