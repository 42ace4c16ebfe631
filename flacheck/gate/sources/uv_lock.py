"""Pins in a uv.lock: exact versions; a lock that forks holds several installations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flacheck.config import toml
from flacheck.errors import UsageError
from flacheck.gate.pinned import NAMES, Pin, Scope, place
from flacheck.gate.sources.markers import may_hold
from flacheck.gate.sources.text import read_text

Locked = tuple[Mapping[str, Any], Pin]


def read(path: Path, shown: str, warn: Callable[[str], None]) -> list[Scope]:
    """A scope for each torch that is locked, with the Triton that goes with it, and for each Triton
    without one.
    """
    text = read_text(path, shown)
    packages = _tables(toml.loads(text, shown).get("package", []), f"{shown}: package")
    named = [
        (index, package) for index, package in enumerate(packages) if package.get("name") in NAMES
    ]
    lines = toml.lines(text) if named else {}
    locked = [
        (package, _pin(package, shown, _line(lines, index), warn)) for index, package in named
    ]
    return list(_scopes([entry for entry in locked if _holds(*entry)]))


def _line(lines: Mapping[toml.Path, int], index: int) -> int | None:
    """Of the version, else of the name."""
    return lines.get(("package", index, "version")) or lines.get(("package", index, "name"))


def _pin(
    package: Mapping[str, Any], shown: str, line: int | None, warn: Callable[[str], None]
) -> Pin:
    """The locked version; a source tree may have none before it is built."""
    version = package.get("version")
    if version is None:
        warn(
            f"{place(shown, line)}: {package['name']} is locked without a version: every release is assumed"
        )
    elif not isinstance(version, str):
        raise UsageError(f"{place(shown, line)}: version is no text; is this a uv.lock?")
    specifier = f"=={version}" if version else ""
    return Pin(shown, line, package["name"], specifier, obstacle="a lock is written by uv")


def _scopes(locked: Sequence[Locked]) -> Iterator[Scope]:
    torches, tritons = ([entry for entry in locked if entry[1].name == name] for name in NAMES)
    alone = {pin for _, pin in tritons}
    several = len(torches) > 1 or len(tritons) > 1
    for package, pin in torches:
        mine = [
            triton
            for found, triton in tritons
            if _requires(package, pin, found, only=len(tritons) == 1)
        ]
        alone -= set(mine)
        yield Scope(pin.said if several else None, (pin, *mine))
    for _, pin in tritons:
        yield from [Scope(pin.said if several else None, (pin,))] if pin in alone else []


def _requires(torch: Mapping[str, Any], pin: Pin, triton: Mapping[str, Any], only: bool) -> bool:
    """Whether a locked torch leads to a locked Triton; a version is named where there are several."""
    wanted = [
        entry
        for entry in _tables(torch.get("dependencies", []), f"{pin.where}: dependencies")
        if entry.get("name") == "triton" and may_hold(entry.get("marker"), pin.where)
    ]
    version = triton.get("version")
    return any(entry.get("version", version) == version for entry in wanted) or (
        only and not wanted
    )


def _holds(package: Mapping[str, Any], pin: Pin) -> bool:
    markers = package.get("resolution-markers", [])
    if not isinstance(markers, list):
        raise UsageError(f"{pin.where}: resolution-markers is no list; is this a uv.lock?")
    return not markers or any(may_hold(marker, pin.where) for marker in markers)


def _tables(value: Any, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise UsageError(f"{where} is no array of tables; is this a uv.lock?")
    return value
