"""Pins in Poetry's dependency tables, their requirements translated to PEP 440."""

import platform
import re
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from flacheck.capabilities.gate.pins import LabelledPin, Pin
from flacheck.capabilities.gate.sources import requirement
from flacheck.capabilities.gate.sources.pin_files import TomlDocument
from flacheck.errors import UsageError
from flacheck.tables.settings import toml


def pins(document: TomlDocument) -> Iterator[LabelledPin]:
    """Yield the pins in dependencies, extras and groups."""
    yield from _table_pins(document, None, "dependencies")
    # The older spelling of the group `dev`.
    yield from _table_pins(document, "group dev", "dev-dependencies")
    for name in document.at("tool", "poetry", "group"):
        yield from _table_pins(document, f"group {name}", "group", name, "dependencies")


def _table_pins(document: TomlDocument, label: str | None, *table: str) -> Iterator[LabelledPin]:
    """Yield the pins in a table."""
    for key, value in document.at("tool", "poetry", *table).items():
        name, path = canonicalize_name(key), ("tool", "poetry", *table, key)
        if name not in document.file.names:
            continue
        entries: list[tuple[toml.Path, Any]] = [(path, value)]
        if isinstance(value, list):
            # A list holds constraints for different systems or Pythons.
            entries = [((*path, index), entry) for index, entry in enumerate(value)]
        for entry_path, entry in entries:
            pin = _pin(document, name, entry, entry_path)
            is_optional = isinstance(entry, Mapping) and entry.get("optional") is True
            if pin and is_optional:
                yield label or "extras", pin
            elif pin:
                yield label, pin


def _pin(document: TomlDocument, name: str, entry: Any, path: toml.Path) -> Pin | None:
    """Return the pin of a dependency; None if it is not for this environment."""
    file, where = document.file, document.where(path)
    keys = (*path, "version")
    if not isinstance(entry, Mapping):
        entry, keys = {"version": entry}, path
    for key in ("version", "python", "markers", "platform"):
        if not isinstance(entry.get(key, ""), str):
            why = f"{key} of {name} must be a text in quotes, not {entry[key]!r}"
            raise UsageError(f"{where}: {why}")
    if not _holds(entry, where):
        return None
    line = document.line(keys) or document.line(path)
    address = entry.get("url") or entry.get("path") or entry.get("file") or entry.get("git")
    if address:
        return requirement.of_url(str(address), name, file, line)
    if "version" not in entry:
        return Pin(file.display_name, line, name, "", obstacle="it names no version")
    text = entry["version"]
    specifier = pep440(text, where)
    return Pin(file.display_name, line, name, specifier, (0, len(text)), text, keys=keys)


def _holds(entry: Mapping[str, Any], where: str) -> bool:
    """Return True for entries for this Python on Linux."""
    if entry.get("platform", "linux") != "linux":
        return False
    if not requirement.holds(entry.get("markers"), where):
        return False
    # An entry without a constraint is for every Python.
    alternatives = map(SpecifierSet, pep440(entry.get("python", ""), where).split("||"))
    here = platform.python_version()
    return any(alternative.contains(here, prereleases=True) for alternative in alternatives)


def pep440(text: str, where: str) -> str:
    """Translate a constraint: `^2.7 || ~3.1` to `>=2.7,<3 || >=3.1,<3.2`.

    Raises:
        UsageError: If the constraint is invalid; the message begins with `where`.
    """
    alternatives = []
    try:
        for part in re.split(r"\|\|?", text):
            # Blanks may follow an operator, and replace a comma.
            compact = re.sub(r"([<>=!~^])\s+", r"\1", part.strip())
            clauses = map(_clause, filter(None, re.split(r"[,\s]+", compact)))
            alternatives.append(",".join(filter(None, clauses)))
            # Raises ValueError for an invalid specifier.
            SpecifierSet(alternatives[-1])
    except ValueError:
        why = "is not a version constraint; write ^2.7, ~3.4 or >=3.4,<3.9"
        raise UsageError(f"{where}: {text!r} {why}") from None
    return " || ".join(alternatives)


def _clause(clause: str) -> str:
    """Translate one clause; "" allows every version."""
    if clause == "*":
        return ""
    if clause.startswith("^"):
        release = Version(clause[1:]).release
        # The first number that is not zero stays, or the last one if all are zero.
        index = 0
        while index < len(release) - 1 and release[index] == 0:
            index += 1
        return _below_next(clause[1:], release, index)
    if clause.startswith("~") and not clause.startswith("~="):
        release = Version(clause[1:]).release
        # ~1.2.3 and ~1.2 stay within 1.2, ~1 within 1.
        return _below_next(clause[1:], release, min(2, len(release)) - 1)
    if clause[0].isdigit() or clause[0] == "v":
        return f"=={clause.lstrip('v')}"
    if re.match(r"=\d", clause):
        return f"={clause}"
    return clause


def _below_next(text: str, release: tuple[int, ...], index: int) -> str:
    """Return the range from a version to the next one with another number at `index`."""
    above = [*release[:index], release[index] + 1]
    return f">={text},<{'.'.join(map(str, above))}"
