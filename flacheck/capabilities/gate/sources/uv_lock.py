"""Pins in a uv.lock: exact versions; a lock that forks holds several installations."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from flacheck.capabilities.gate.pins import NAMES, LabelledPin, Pin
from flacheck.capabilities.gate.sources.pin_files import PinFile, TomlDocument
from flacheck.capabilities.gate.sources.requirement import may_hold
from flacheck.errors import UsageError

_LOG = logging.getLogger(__name__)

# A package of the lock with the pin that it is.
Locked = tuple[Mapping[str, Any], Pin]


def read(file: PinFile) -> list[LabelledPin]:
    """The locked torch with its Triton; in a lock that forks, each pair under its own label."""
    document = TomlDocument.read(file)
    packages = _tables(document.table.get("package", []), f"{file.shown}: package")
    locked: dict[str, list[Locked]] = {name: [] for name in NAMES}
    for index, package in enumerate(packages):
        if package.get("name") in NAMES:
            pin, markers = _pin(document, index, package), package.get("resolution-markers", [])
            if not isinstance(markers, list):
                why = "resolution-markers is no list; is this a uv.lock?"
                raise UsageError(f"{pin.where}: {why}")
            # Only what is locked for this Python on Linux, and not for a fork of the lock.
            if not markers or any(may_hold(marker, pin.where) for marker in markers):
                locked[pin.name].append((package, pin))
    torches, tritons = locked["torch"], locked["triton"]
    installations = [[pin, *_required(torch, pin, tritons)] for torch, pin in torches]
    with_torch = {pin for pins in installations for pin in pins}
    installations += [[pin] for _, pin in tritons if pin not in with_torch]
    forks = len(torches) > 1 or len(tritons) > 1
    pairs = [
        (pins[0].requirement if forks else None, pin) for pins in installations for pin in pins
    ]
    # A compiler that no torch leads to is locked by itself.
    others = [pin for name in NAMES if name not in ("torch", "triton") for _, pin in locked[name]]
    return [*pairs, *((None, pin) for pin in others)]


def _pin(document: TomlDocument, index: int, package: Mapping[str, Any]) -> Pin:
    """The locked version; a source tree may have none before it is built."""
    file, version, specifier = document.file, package.get("version"), ""
    line = document.lines.get(("package", index, "version"))
    if line is None:
        line = document.lines.get(("package", index, "name"))
    if version is None:
        said = f"{package['name']} is locked without a version: every release is assumed"
        _LOG.warning(f"{file.where(line)}: {said}")
    elif isinstance(version, str):
        specifier = f"=={version}"
    else:
        raise UsageError(f"{file.where(line)}: version is no text; is this a uv.lock?")
    return Pin(file.shown, line, package["name"], specifier, obstacle="a lock is written by uv")


def _required(torch: Mapping[str, Any], pin: Pin, tritons: Sequence[Locked]) -> list[Pin]:
    """The locked Tritons that a locked torch leads to."""
    dependencies = _tables(torch.get("dependencies", []), f"{pin.where}: dependencies")
    needed = [
        dependency
        for dependency in dependencies
        if dependency.get("name") == "triton" and may_hold(dependency.get("marker"), pin.where)
    ]
    if not needed and len(tritons) == 1:
        return [tritons[0][1]]
    # uv names the version only where several are locked.
    return [
        triton_pin
        for triton, triton_pin in tritons
        if triton.get("version") in (each.get("version", triton.get("version")) for each in needed)
    ]


def _tables(value: Any, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise UsageError(f"{where} is no array of tables; is this a uv.lock?")
    return value
