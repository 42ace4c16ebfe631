"""Poetry's dependency tables, with its caret, tilde and wildcard requirements as PEP 440."""

import platform
import re
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from flacheck.capabilities.gate.pins import NAMES, LabelledPin, Pin
from flacheck.capabilities.gate.sources import requirement
from flacheck.capabilities.gate.sources.pin_files import TomlDocument
from flacheck.config import toml
from flacheck.errors import UsageError


def pins(document: TomlDocument) -> Iterator[LabelledPin]:
    """The pins of torch and Triton: dependencies, optional ones ("extras"), and of groups."""
    yield from _labelled(document, None, "dependencies")
    # How the group of that name was written before there were groups.
    yield from _labelled(document, "group dev", "dev-dependencies")
    for name in document.at("tool", "poetry", "group"):
        yield from _labelled(document, f"group {name}", "group", name, "dependencies")


def _labelled(document: TomlDocument, label: str | None, *table: str) -> Iterator[LabelledPin]:
    """The pins of torch or Triton in a table."""
    for key, value in document.at("tool", "poetry", *table).items():
        name, path = canonicalize_name(key), ("tool", "poetry", *table, key)
        if name not in NAMES:
            continue
        entries: list[tuple[toml.Path, Any]] = [(path, value)]
        if isinstance(value, list):
            # Several constraints, for different systems or Pythons.
            entries = [((*path, index), entry) for index, entry in enumerate(value)]
        for entry_path, entry in entries:
            pin = _pin(document, name, entry, entry_path)
            is_optional = isinstance(entry, Mapping) and entry.get("optional") is True
            if pin and is_optional:
                yield label or "extras", pin
            elif pin:
                yield label, pin


def _pin(document: TomlDocument, name: str, entry: Any, path: toml.Path) -> Pin | None:
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
        return Pin(file.shown, line, name, "", obstacle="it names no version")
    text = entry["version"]
    specifier = pep440(text, where)
    return Pin(file.shown, line, name, specifier, (0, len(text)), text, keys=keys)


def _holds(entry: Mapping[str, Any], where: str) -> bool:
    """Whether an entry is for this Python on Linux."""
    if entry.get("platform", "linux") != "linux":
        return False
    if not requirement.holds(entry.get("markers"), where):
        return False
    # No constraint admits every Python.
    alternatives = map(SpecifierSet, pep440(entry.get("python", ""), where).split("||"))
    here = platform.python_version()
    return any(alternative.contains(here, prereleases=True) for alternative in alternatives)


def pep440(text: str, where: str) -> str:
    """`^2.7 || ~3.1` as `>=2.7,<3 || >=3.1,<3.2`; UsageError at `where` for others."""
    alternatives = []
    try:
        for part in re.split(r"\|\|?", text):
            # Blanks may stand after an operator, and instead of a comma.
            joined = re.sub(r"([<>=!~^])\s+", r"\1", part.strip())
            clauses = [_clause(clause) for clause in re.split(r"[,\s]+", joined) if clause]
            alternatives.append(",".join(filter(None, clauses)))
            SpecifierSet(alternatives[-1])
    except ValueError:
        why = "is no version constraint; write ^2.7, ~3.4 or >=3.4,<3.9"
        raise UsageError(f"{where}: {text!r} {why}") from None
    return " || ".join(alternatives)


def _clause(clause: str) -> str:
    """One of Poetry's clauses as PEP 440 has it; "" for any version."""
    if clause == "*":
        return ""
    if clause.startswith("^"):
        release = Version(clause[1:]).release
        # The first number that is not zero stays; the last one when all are.
        nonzero = (index for index, number in enumerate(release) if number)
        return _below_next(clause[1:], release, next(nonzero, len(release) - 1))
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
    """At least this version, and below the next one that differs at this number of its release."""
    above = [*release[:index], release[index] + 1]
    return f">={text},<{'.'.join(map(str, above))}"
