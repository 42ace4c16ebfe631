"""Pins in a uv.lock: exact versions. A lock with forks holds several installations."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from flacheck.capabilities.gate.pins import LabelledPin, Pin
from flacheck.capabilities.gate.sources.pin_files import PinFile, TomlDocument
from flacheck.capabilities.gate.sources.requirement import may_hold
from flacheck.errors import UsageError

_LOG = logging.getLogger(__name__)

# A package's table in the lock, with its pin.
LockEntry = tuple[Mapping[str, Any], Pin]


def read(file: PinFile) -> list[LabelledPin]:
    """Return torch with its Triton; in a lock with forks, each pair has its own label."""
    return pins_of(_entries(TomlDocument.read(file)))


def pins_of(entries: Mapping[str, Sequence[LockEntry]]) -> list[LabelledPin]:
    """Return the pins of a lock's entries by distribution, each torch with its Triton."""
    torches, tritons = entries.get("torch", ()), entries.get("triton", ())
    installations = [[pin, *_required_triton(torch, pin, tritons)] for torch, pin in torches]
    with_torch: set[Pin] = set()
    for installation in installations:
        with_torch.update(installation)
    installations += [[pin] for _, pin in tritons if pin not in with_torch]
    has_forks = len(torches) > 1 or len(tritons) > 1
    pins: list[LabelledPin] = []
    for installation in installations:
        label = None
        if has_forks:
            label = installation[0].requirement
        for pin in installation:
            pins.append((label, pin))
    # No torch requires the others, so they stand alone.
    for name, own_entries in entries.items():
        if name not in ("torch", "triton"):
            pins += [(None, pin) for _, pin in own_entries]
    return pins


def _entries(document: TomlDocument) -> dict[str, list[LockEntry]]:
    """Return the lock's entries for this Python on Linux, by distribution."""
    where = f"{document.file.display_name}: package"
    packages = tables(document.table.get("package", []), where)
    entries: dict[str, list[LockEntry]] = {name: [] for name in document.file.names}
    for index, package in enumerate(packages):
        if package.get("name") not in document.file.names:
            continue
        pin = _pin(document, index, package)
        markers = package.get("resolution-markers", [])
        if not isinstance(markers, list):
            why = "resolution-markers is not a list; is this a uv.lock?"
            raise UsageError(f"{pin.where}: {why}")
        # The markers of a fork limit where it holds.
        if not markers or any(may_hold(marker, pin.where) for marker in markers):
            entries[pin.name].append((package, pin))
    return entries


def _pin(document: TomlDocument, index: int, package: Mapping[str, Any]) -> Pin:
    """Return the exact version; a source tree may have none before it is built."""
    file, version, specifier = document.file, package.get("version"), ""
    line = document.lines.get(("package", index, "version"))
    if line is None:
        line = document.lines.get(("package", index, "name"))
    if version is None:
        warning = f"{package['name']} is locked without a version: every release is assumed"
        _LOG.warning(f"{file.where(line)}: {warning}")
    elif isinstance(version, str):
        specifier = f"=={version}"
    else:
        raise UsageError(f"{file.where(line)}: version is not a string; is this a uv.lock?")
    obstacle = "a lock is written by uv"
    return Pin(file.display_name, line, package["name"], specifier, obstacle=obstacle)


def _required_triton(torch: Mapping[str, Any], pin: Pin, tritons: Sequence[LockEntry]) -> list[Pin]:
    """Return the Triton entries that a torch entry depends on."""
    dependencies = tables(torch.get("dependencies", []), f"{pin.where}: dependencies")
    on_triton = []
    for dependency in dependencies:
        if dependency.get("name") == "triton" and may_hold(dependency.get("marker"), pin.where):
            on_triton.append(dependency)
    if not on_triton and len(tritons) == 1:
        return [tritons[0][1]]
    pins = []
    for triton, triton_pin in tritons:
        version = triton.get("version")
        # uv writes the version of a dependency only if the lock has several.
        if version in [dependency.get("version", version) for dependency in on_triton]:
            pins.append(triton_pin)
    return pins


def tables(value: Any, where: str) -> list[Mapping[str, Any]]:
    """Return an array of tables; raise UsageError for another value."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise UsageError(f"{where} is not an array of tables; is this a lock file?")
    return value
