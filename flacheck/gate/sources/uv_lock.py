"""Pins in a uv.lock: exact versions; a lock that forks holds several installations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import InvalidMarker, Marker

from flacheck import toml
from flacheck.errors import UsageError
from flacheck.gate.pinned import NAMES, Pin, Scope
from flacheck.gate.sources.requirement import LINUX
from flacheck.gate.sources.text import read_text

_TABLE = re.compile(r"^\[\[package\]\]", re.MULTILINE)
_VERSION = re.compile(r"^version\s*=", re.MULTILINE)


def read(path: Path, shown: str, warn: Callable[[str], None]) -> list[Scope]:
    """A scope for each torch that is locked, with the Triton that goes with it, and for each Triton without one."""
    text = read_text(path, shown)
    packages = toml.loads(text, shown).get("package", [])
    if not isinstance(packages, list) or not all(isinstance(package, dict) for package in packages):
        raise UsageError(f"{shown}: package is no array of tables; is this a uv.lock?")
    lines = _lines(text)
    locked = [
        (package, Pin(shown, line, package["name"], f"=={package['version']}", obstacle="a lock is written by uv"))
        for package, line in zip(packages, lines)
        if package.get("name") in NAMES and "version" in package and _holds(package)
    ]
    return list(
        _scopes([entry for entry in locked if entry[1].name == "torch"], [e for e in locked if e[1].name == "triton"])
    )


def _scopes(
    torches: list[tuple[Mapping[str, Any], Pin]], tritons: list[tuple[Mapping[str, Any], Pin]]
) -> Iterator[Scope]:
    alone = {pin for _, pin in tritons}
    several = len(torches) > 1 or len(tritons) > 1
    for package, pin in torches:
        mine = [triton for found, triton in tritons if _requires(package, found, only=len(tritons) == 1)]
        alone -= set(mine)
        yield Scope(pin.said if several else None, (pin, *mine))
    for _, pin in tritons:
        yield from [Scope(pin.said if several else None, (pin,))] if pin in alone else []


def _requires(torch: Mapping[str, Any], triton: Mapping[str, Any], only: bool) -> bool:
    """Whether a locked torch leads to a locked Triton; a version is named where there are several."""
    wanted = [
        entry
        for entry in torch.get("dependencies", ())
        if entry.get("name") == "triton" and _marked(entry.get("marker"))
    ]
    return any(entry.get("version", triton["version"]) == triton["version"] for entry in wanted) or (
        only and not wanted
    )


def _holds(package: Mapping[str, Any]) -> bool:
    markers = package.get("resolution-markers", ())
    return not markers or any(map(_marked, markers))


def _marked(marker: str | None) -> bool:
    try:
        return marker is None or Marker(marker).evaluate(LINUX)
    except InvalidMarker:
        # uv's own markers for conflicting extras are newer than packaging's grammar: such a fork may be chosen.
        return True


def _lines(text: str) -> list[int]:
    """The line of each package's version, in the order of the packages."""
    lines, line, last = [], 1, 0
    for table in _TABLE.finditer(text):
        version = _VERSION.search(text, table.end())
        place = version.start() if version else table.start()
        line, last = line + text.count("\n", last, place), place
        lines.append(line)
    return lines
