"""Where pins come from: one file a kind of source, each from a path to scopes of pins with file and
line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from flacheck.errors import UsageError
from flacheck.gate.pinned import Installation, Pin, Scope, distinct
from flacheck.gate.sources import environment, pyproject, requirements, uv_lock

Warn = Callable[[str], None]
_FOUND = (
    "pyproject.toml",
    "requirements*.txt",
    "requirements*.in",
    "constraints*.txt",
    "requirements/*.txt",
    "uv.lock",
)
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


def named(files: Sequence[Path], warn: Warn) -> list[Installation]:
    """What the files are held to when they are installed together, as `pip install -r A -c B` does.

    A lock is a whole installation by itself. Raises UsageError with file and line.
    """
    together = [scope for file in files if not _is_lock(file) for scope in _read(file, warn)]
    shown = ", ".join(_shown(file) for file in files if not _is_lock(file))
    return [
        *_installations(shown, together),
        *(found for file in files if _is_lock(file) for found in _alone(file, warn)),
    ]


def found(folder: Path, warn: Warn) -> list[Installation]:
    """What each file in a folder that can hold pins is held to by itself; files without a pin are
    left out.
    """
    paths = dict.fromkeys(
        path for pattern in _FOUND for path in sorted(folder.glob(pattern)) if path.is_file()
    )
    return [installation for path in paths for installation in _alone(path, warn)]


def installed() -> list[Installation]:
    """What is in the live environment."""
    return _installations("the live environment", environment.read())


def _alone(file: Path, warn: Warn) -> list[Installation]:
    return _installations(_shown(file), _read(file, warn))


def _read(file: Path, warn: Warn) -> list[Scope]:
    if file.name in _NOT_READ:
        raise UsageError(f"{_shown(file)}: cannot be read by gate, which knows {_READ}")
    reader = (
        uv_lock.read
        if _is_lock(file)
        else pyproject.read
        if file.suffix == ".toml"
        else requirements.read
    )
    return reader(file, _shown(file), warn)


def _is_lock(file: Path) -> bool:
    return file.suffix == ".lock"


def _shown(file: Path) -> str:
    """A path as it is named in messages and annotations: from here, where it is below."""
    return (
        os.path.relpath(file)
        if file.is_absolute() and file.is_relative_to(Path.cwd())
        else str(file)
    )


def _installations(name: str, scopes: Iterable[Scope]) -> list[Installation]:
    """The base alone, and with each extra or group that adds to it."""
    scopes = list(scopes)
    base = tuple(pin for scope in scopes if scope.label is None for pin in scope.pins)
    return list(_with_scopes(name, base, scopes))


def _with_scopes(name: str, base: tuple[Pin, ...], scopes: list[Scope]) -> Iterator[Installation]:
    if base:
        yield Installation(name, distinct(base))
    for label in dict.fromkeys(scope.label for scope in scopes if scope.label):
        pins = tuple(pin for scope in scopes if scope.label == label for pin in scope.pins)
        if set(pins) - set(base):
            yield Installation(f"{name} ({label})", distinct((*base, *pins)))
