"""Poetry's dependency tables, with its caret, tilde and wildcard requirements as PEP 440."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck.config.toml import Path
from flacheck.errors import UsageError
from flacheck.gate.pinned import NAMES, Pin, Scope
from flacheck.gate.sources import markers, requirement

if TYPE_CHECKING:
    from flacheck.gate.sources.pyproject import Document

_TABLE = ("tool", "poetry")


def scopes(document: Document) -> Iterator[Scope]:
    """First the pins that hold in every installation; then optional dependencies, the old table of
    development dependencies, and the groups.
    """
    pins = list(_pins(document, (*_TABLE, "dependencies")))
    yield Scope(None, tuple(pin for optional, pin in pins if not optional))
    yield Scope("extras", tuple(pin for optional, pin in pins if optional))
    yield Scope(
        "group dev", tuple(pin for _, pin in _pins(document, (*_TABLE, "dev-dependencies")))
    )
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
            yield from (
                [(isinstance(entry, Mapping) and entry.get("optional") is True, found)]
                if found
                else []
            )


def _pin(document: Document, name: str, entry: Any, path: Path) -> Pin | None:
    place = (*path, "version") if isinstance(entry, Mapping) else path
    entry = entry if isinstance(entry, Mapping) else {"version": entry}
    where = document.where(path)
    for key in ("version", "python", "markers", "platform"):
        if not isinstance(entry.get(key, ""), str):
            raise UsageError(
                f"{where}: {key} of {name} must be a text in quotes, not {entry[key]!r}"
            )
    if not _holds(entry, where):
        return None
    line = document.line(place) or document.line(path)
    address = entry.get("url") or entry.get("path") or entry.get("file") or entry.get("git")
    if address:
        return requirement.of_url(str(address), name, document.shown, line, document.warn)
    text = entry.get("version", "*")
    specifier = pep440(text, where)
    if "version" not in entry:
        return Pin(document.shown, line, name, specifier, obstacle="it names no version")
    return Pin(document.shown, line, name, specifier, (0, len(text)), text, keys=place)


def _holds(entry: Mapping[str, Any], where: str) -> bool:
    """Whether an entry is for this Python on Linux."""
    on_linux = entry.get("platform", "linux") == "linux"
    return on_linux and markers.holds(entry.get("markers"), where) and _python(entry, where)


def _python(entry: Mapping[str, Any], where: str) -> bool:
    import platform

    wanted = entry.get("python")
    ranges = pep440(wanted, where).split("||") if wanted else [""]
    return any(
        SpecifierSet(found).contains(platform.python_version(), prereleases=True)
        for found in ranges
    )


def pep440(text: str, where: str) -> str:
    """`^2.7 || ~3.1` as `>=2.7,<3 || >=3.1,<3.2`; a UsageError that begins with `where` for what is
    neither.
    """
    try:
        alternatives = [
            ",".join(filter(None, map(_clause, _clauses(part))))
            for part in re.split(r"\|\|?", text)
        ]
        for alternative in alternatives:
            SpecifierSet(alternative)
    except (InvalidSpecifier, InvalidVersion, ValueError):
        raise UsageError(
            f"{where}: {text!r} is no version constraint; write ^2.7, ~3.4 or >=3.4,<3.9"
        ) from None
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
