"""Pins in a pylock.toml (PEP 751): exact versions, with the lines that packaging's reader lacks."""

import re
from typing import Any

from flacheck.capabilities.gate.pins import LabelledPin, Pin
from flacheck.capabilities.gate.sources import uv_lock
from flacheck.capabilities.gate.sources.pin_files import PinFile, TomlDocument
from flacheck.capabilities.gate.sources.requirement import may_hold
from flacheck.capabilities.gate.sources.uv_lock import LockEntry
from flacheck.errors import UsageError

NAME = re.compile(r"pylock(\.[^.]+)?\.toml")
# Versions of the format that this reader knows: 1.0 and later ones of the same major version.
_MAJOR = "1."
_ANY_TRITON = [{"name": "triton"}]
# Which extras and groups an installation selects is unknown.
_SELECTION = re.compile(r"\b(extras|dependency_groups)\b")


def read(file: PinFile) -> list[LabelledPin]:
    """Return torch with its Triton; in a lock with several of them, each pair has its own label.

    Raises:
        UsageError: With file and line, if the file is not a pylock.toml of version 1.
    """
    document = TomlDocument.read(file)
    version = document.table.get("lock-version")
    if not isinstance(version, str) or not version.startswith(_MAJOR):
        why = f"lock-version is {version!r}; gate reads pylock files of version 1.x"
        raise UsageError(f"{document.where(('lock-version',))}: {why}")
    packages = uv_lock.tables(document.table.get("packages", []), f"{file.display_name}: packages")
    entries: dict[str, list[LockEntry]] = {name: [] for name in file.names}
    for index, package in enumerate(packages):
        if package.get("name") not in document.file.names:
            continue
        pin = _pin(document, index, package["name"], package.get("version"))
        if _may_be_installed(package.get("marker"), pin.where):
            # Dependencies are optional in this format: any of the Tritons may be torch's.
            entries[pin.name].append(({"dependencies": _ANY_TRITON, **package}, pin))
    return uv_lock.pins_of(entries)


def _pin(document: TomlDocument, index: int, name: str, version: Any) -> Pin:
    """Return the exact version; a source tree may have none before it is built."""
    file, specifier = document.file, ""
    line = document.lines.get(("packages", index, "version"))
    if line is None:
        line = document.lines.get(("packages", index, "name"))
    if isinstance(version, str):
        specifier = f"=={version}"
    elif version is not None:
        raise UsageError(f"{file.where(line)}: version of {name} is not a string")
    obstacle = "a lock is written by the tool that locks"
    return Pin(file.display_name, line, name, specifier, obstacle=obstacle)


def _may_be_installed(marker: Any, where: str) -> bool:
    if isinstance(marker, str) and _SELECTION.search(marker):
        return True
    return may_hold(marker, where)
