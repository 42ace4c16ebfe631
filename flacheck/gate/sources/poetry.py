"""Poetry's dependency tables, with its caret, tilde and wildcard requirements as PEP 440."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from packaging.markers import InvalidMarker, Marker
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck.errors import UsageError
from flacheck.gate.pinned import NAMES, Pin, Scope
from flacheck.gate.sources import requirement
from flacheck.toml import Path

if TYPE_CHECKING:
    from flacheck.gate.sources.pyproject import Document

_TABLE = ("tool", "poetry")


def main(document: Document) -> Iterator[Pin]:
    """The pins that hold in every installation; those of an extra (`optional`) only in some."""
    yield from (pin for optional, pin in _pins(document, (*_TABLE, "dependencies")) if not optional)


def groups(document: Document) -> Iterator[Scope]:
    """Optional dependencies, the old table of development dependencies, and the groups."""
    optional = tuple(pin for wanted, pin in _pins(document, (*_TABLE, "dependencies")) if wanted)
    yield Scope("extras", optional)
    yield Scope("group dev", tuple(pin for _, pin in _pins(document, (*_TABLE, "dev-dependencies"))))
    for name in document.at(*_TABLE, "group"):
        path = (*_TABLE, "group", name, "dependencies")
        yield Scope(f"group {name}", tuple(pin for _, pin in _pins(document, path)))


def _pins(document: Document, path: tuple[str, ...]) -> Iterator[tuple[bool, Pin]]:
    for key, value in document.at(*path).items():
        name = canonicalize_name(key)
        if name not in NAMES:
            continue
        several = isinstance(value, list)
        for index, entry in enumerate(value if several else [value]):
            place = (*path, key, index) if several else (*path, key)
            found = _pin(document, name, entry, place)
            yield from [(isinstance(entry, Mapping) and entry.get("optional") is True, found)] if found else []


def _pin(document: Document, name: str, entry: Any, path: Path) -> Pin | None:
    if isinstance(entry, str):
        entry, place = {"version": entry}, path
    elif isinstance(entry, Mapping):
        place = (*path, "version")
    else:
        raise UsageError(f'{document.where(path)}: {name} wants a version such as "^2.7", not {entry!r}')
    if not _holds(document, entry, path):
        return None
    line = document.lines.get(place) or int(document.where(path).rpartition(":")[2])
    address = entry.get("url") or entry.get("path") or entry.get("file") or entry.get("git")
    if address:
        return requirement.of_url(str(address), name, document.shown, line, document.warn)
    text = entry.get("version", "*")
    specifier = pep440(text, f"{document.shown}:{line}")
    if "version" not in entry:
        return Pin(document.shown, line, name, specifier, obstacle="it names no version")
    return Pin(document.shown, line, name, specifier, (0, len(text)), text, keys=place)


def _holds(document: Document, entry: Mapping[str, Any], path: Path) -> bool:
    """Whether an entry is for this Python on Linux."""
    try:
        marker = Marker(entry["markers"]) if entry.get("markers") else None
    except InvalidMarker:
        raise UsageError(f"{document.where(path)}: {entry['markers']!r} is no environment marker") from None
    platform = entry.get("platform", "linux")
    return (
        platform == "linux"
        and (marker is None or marker.evaluate(requirement.LINUX))
        and _python(document, entry, path)
    )


def _python(document: Document, entry: Mapping[str, Any], path: Path) -> bool:
    import platform

    wanted = entry.get("python")
    ranges = pep440(wanted, document.where(path)).split("||") if wanted else [""]
    return any(SpecifierSet(found).contains(platform.python_version(), prereleases=True) for found in ranges)


def pep440(text: Any, where: str) -> str:
    """`^2.7 || ~3.1` as `>=2.7,<3 || >=3.1,<3.2`; a UsageError that begins with `where` for what is neither."""
    try:
        alternatives = [",".join(filter(None, map(_clause, _clauses(part)))) for part in str(text).split("||")]
        for alternative in alternatives:
            SpecifierSet(alternative)
    except (InvalidSpecifier, InvalidVersion, ValueError):
        raise UsageError(f"{where}: {text!r} is no version constraint; write ^2.7, ~3.4 or >=3.4,<3.9") from None
    return " || ".join(alternatives)


def _clauses(text: str) -> list[str]:
    joined = re.sub(r"([<>=!~^])\s+", r"\1", text.strip())
    return [clause for clause in re.split(r"[,\s]+", joined) if clause]


def _clause(clause: str) -> str:
    if clause == "*":
        return ""
    if clause[0] == "^":
        return _up_to(clause[1:], _caret)
    if clause[0] == "~" and clause[:2] != "~=":
        return _up_to(clause[1:], lambda release: min(2, len(release)) - 1)
    if clause[0].isdigit() or clause[0] == "v":
        return f"=={clause.lstrip('v')}"
    return f"={clause}" if re.match(r"=\d", clause) else clause


def _caret(release: tuple[int, ...]) -> int:
    """The place of the first number that is not zero; of the last one when all are."""
    return next((place for place, number in enumerate(release) if number), len(release) - 1)


def _up_to(text: str, place_of: Callable[[tuple[int, ...]], int]) -> str:
    release = Version(text).release
    place = place_of(release)
    above = [*release[:place], release[place] + 1]
    return f">={text},<{'.'.join(map(str, above))}"
