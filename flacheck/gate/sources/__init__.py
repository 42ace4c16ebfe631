"""Where pins come from: one file a kind of source, each from a file to scopes of pins with file and
line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from flacheck.errors import UsageError
from flacheck.gate.pinned import NAMES, Installation, Pin, Scope
from flacheck.gate.sources import pyproject, requirements, uv_lock
from flacheck.gate.sources.pin_file import PinFile

Warn = Callable[[str], None]
_LOOKED_FOR = (
    "pyproject.toml",
    "requirements*.txt",
    "requirements*.in",
    "constraints*.txt",
    "requirements/*.txt",
    "uv.lock",
)
# Better refused than read as a requirements file without a pin.
_NOT_READ = (
    "poetry.lock",
    "pdm.lock",
    "pylock.toml",
    "Pipfile",
    "Pipfile.lock",
    "environment.yml",
    "environment.yaml",
    "setup.py",
    "setup.cfg",
)
_READ = "pyproject.toml, requirements and constraints files, and uv.lock"


def of_files(paths: Sequence[Path], warn: Warn) -> list[Installation]:
    """What the files are held to when they are installed together, as `pip install -r A -c B` does.

    A lock is a whole installation by itself. Raises UsageError with file and line.
    """
    files = [PinFile(path, _shown(path), warn) for path in paths]
    together = [file for file in files if not _is_lock(file)]
    scopes = [scope for file in together for scope in _read(file)]
    installations = list(_installations(", ".join(file.shown for file in together), scopes))
    for file in files:
        if _is_lock(file):
            installations += _installations(file.shown, _read(file))
    return installations


def in_folder(folder: Path, warn: Warn) -> list[Installation]:
    """What each file in a folder that can hold pins is held to by itself; files without a pin are
    left out.
    """
    paths = [path for pattern in _LOOKED_FOR for path in sorted(folder.glob(pattern))]
    installations: list[Installation] = []
    for path in dict.fromkeys(paths):
        if path.is_file():
            installations += of_files([path], warn)
    return installations


def installed() -> list[Installation]:
    """What is in the live environment, beside flacheck."""
    pins = []
    for name in NAMES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        obstacle = "it is what is installed"
        pins.append(Pin("(installed)", None, name, f"=={version}", obstacle=obstacle))
    return list(_installations("the live environment", [Scope(None, tuple(pins))]))


def _read(file: PinFile) -> list[Scope]:
    if file.path.name in _NOT_READ:
        raise UsageError(f"{file.shown}: cannot be read by gate, which knows {_READ}")
    if _is_lock(file):
        return uv_lock.read(file)
    if file.path.suffix == ".toml":
        return pyproject.read(file)
    return requirements.read(file)


def _is_lock(file: PinFile) -> bool:
    return file.path.suffix == ".lock"


def _shown(path: Path) -> str:
    """A path as it is named in messages and annotations: from here, where it is below."""
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return os.path.relpath(path)
    return str(path)


def _installations(name: str, scopes: Sequence[Scope]) -> Iterator[Installation]:
    """The base alone, and with each extra or group that adds to it."""
    pins: dict[str | None, list[Pin]] = {None: []}
    for scope in scopes:
        pins.setdefault(scope.label, []).extend(scope.pins)
    base = pins.pop(None)
    if base:
        yield Installation(name, tuple(dict.fromkeys(base)))
    for label, added in pins.items():
        if set(added) - set(base):
            yield Installation(f"{name} ({label})", tuple(dict.fromkeys([*base, *added])))
