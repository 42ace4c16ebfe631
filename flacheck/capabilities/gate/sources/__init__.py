"""Where pins come from: one module a kind of file, each from a file to pins with file and line."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from flacheck.analysis.known_good import group_by_key
from flacheck.capabilities.gate.pins import NAMES, Installation, LabelledPin, Pin
from flacheck.capabilities.gate.sources import pyproject, requirements, uv_lock
from flacheck.capabilities.gate.sources.pin_files import PinFile
from flacheck.errors import UsageError

_LOOKED_FOR = (
    *("pyproject.toml", "requirements*.txt", "requirements*.in"),
    *("constraints*.txt", "requirements/*.txt", "uv.lock"),
)
# Better refused than read as a requirements file without a pin.
_NOT_READ = (
    *("poetry.lock", "pdm.lock", "pylock.toml", "Pipfile", "Pipfile.lock"),
    *("environment.yml", "environment.yaml", "setup.py", "setup.cfg"),
)


def of_files(paths: Sequence[Path]) -> list[Installation]:
    """What the files are held to when they are installed together, as `pip install -r A -c B` does.
    A lock is a whole installation by itself. Raises UsageError with file and line."""
    files = [PinFile(path, _shown(path)) for path in paths]
    together = [file for file in files if not _is_lock(file)]
    pins = [pin for file in together for pin in _read(file)]
    installations = list(_installations(", ".join(file.shown for file in together), pins))
    for file in files:
        if _is_lock(file):
            installations += _installations(file.shown, _read(file))
    return installations


def in_folder(folder: Path) -> list[Installation]:
    """What each file in a folder is held to by itself; files without a pin are left out."""
    paths = [path for pattern in _LOOKED_FOR for path in sorted(folder.glob(pattern))]
    files = filter(Path.is_file, dict.fromkeys(paths))
    return [installation for path in files for installation in of_files([path])]


def installed() -> list[Installation]:
    """What is in the live environment, beside flacheck."""
    pins: list[LabelledPin] = []
    obstacle = "it is what is installed"
    for name in NAMES:
        with suppress(metadata.PackageNotFoundError):
            exact = f"=={metadata.version(name)}"
            pins.append((None, Pin("(installed)", None, name, exact, obstacle=obstacle)))
    return list(_installations("the live environment", pins))


def _read(file: PinFile) -> list[LabelledPin]:
    if file.path.name in _NOT_READ:
        raise UsageError(
            f"{file.shown}: cannot be read by gate, which knows pyproject.toml, requirements and"
            " constraints files, and uv.lock"
        )
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


def _installations(name: str, labelled: Iterable[LabelledPin]) -> Iterator[Installation]:
    """The pins that always hold, alone and with each extra or group that adds to them."""
    pins = dict(group_by_key(labelled))
    base = pins.pop(None, [])
    if base:
        yield Installation(name, tuple(dict.fromkeys(base)))
    for label, added in pins.items():
        if set(added) - set(base):
            yield Installation(f"{name} ({label})", tuple(dict.fromkeys([*base, *added])))
