"""Sources of pins: one module for each kind of file, which returns pins with file and line."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from flacheck.capabilities.gate.pins import NAMES, Installation, LabelledPin, Pin
from flacheck.capabilities.gate.sources import (
    package_pins,
    pylock,
    pyproject,
    requirements,
    uv_lock,
)
from flacheck.capabilities.gate.sources.package_pins import PackagePin
from flacheck.capabilities.gate.sources.pin_files import PinFile
from flacheck.errors import UsageError
from flacheck.evidence.analysis.known_good import group_by_key

_FILE_PATTERNS = (
    *("pyproject.toml", "requirements*.txt", "requirements*.in"),
    *("constraints*.txt", "requirements/*.txt", "uv.lock", "pylock.toml", "pylock.*.toml"),
)
# These would otherwise be read as requirements files without a pin.
_OTHER_FORMATS = (
    *("poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock"),
    *("environment.yml", "environment.yaml", "setup.py", "setup.cfg"),
)


def of_files(paths: Sequence[Path]) -> list[Installation]:
    """Return the installations of files that are installed together, as `pip install -r A -c B`.

    A lock is an installation of its own.

    Raises:
        UsageError: With file and line, if a file cannot be read.
    """
    files = [PinFile(path, _display_name(path)) for path in paths]
    together = [file for file in files if not _is_lock(file)]
    pins: list[LabelledPin] = []
    for file in together:
        pins += _read(file)
    names = ", ".join(file.display_name for file in together)
    installations = list(_installations(names, pins))
    for file in files:
        if _is_lock(file):
            installations += _installations(file.display_name, _read(file))
    return installations


def in_folder(folder: Path) -> list[Installation]:
    """Return the installations of each supported file in a folder that has a pin."""
    installations: list[Installation] = []
    for path in files_in(folder):
        installations += of_files([path])
    return installations


def files_in(folder: Path) -> list[Path]:
    """Return the supported files in a folder."""
    paths: dict[Path, None] = {}
    for pattern in _FILE_PATTERNS:
        paths.update(dict.fromkeys(sorted(folder.glob(pattern))))
    return [path for path in paths if path.is_file()]


def packages_of(paths: Iterable[Path], names: Collection[str]) -> list[PackagePin]:
    """Return the packages of these names that files require, each version once.

    Raises:
        UsageError: If a file cannot be read.
    """
    by_version: dict[tuple[str, str | None], PackagePin] = {}
    for path in paths:
        file = PinFile(path, _display_name(path), names=tuple(names))
        for _, pin in _read(file):
            package = package_pins.of_pin(pin)
            # A project whose version is in its sources is locked without one.
            if package.version is None and _is_lock(file):
                continue
            by_version.setdefault((package.name, package.version), package)
    return list(by_version.values())


def read_installed() -> list[Installation]:
    """Return the packages of the live environment as exact pins."""
    pins: list[LabelledPin] = []
    obstacle = "it is what is installed"
    for name in NAMES:
        with suppress(metadata.PackageNotFoundError):
            exact = f"=={metadata.version(name)}"
            pins.append((None, Pin("(installed)", None, name, exact, obstacle=obstacle)))
    return list(_installations("the live environment", pins))


def _read(file: PinFile) -> list[LabelledPin]:
    if file.path.name in _OTHER_FORMATS:
        raise UsageError(
            f"{file.display_name}: cannot be read by gate, which knows pyproject.toml, requirements"
            " and constraints files, uv.lock and pylock.toml"
        )
    if _is_pylock(file):
        return pylock.read(file)
    if _is_lock(file):
        return uv_lock.read(file)
    if file.path.suffix == ".toml":
        return pyproject.read(file)
    return requirements.read(file)


def _is_lock(file: PinFile) -> bool:
    return file.path.suffix == ".lock" or _is_pylock(file)


def _is_pylock(file: PinFile) -> bool:
    return pylock.NAME.fullmatch(file.path.name) is not None


def _display_name(path: Path) -> str:
    """Return a path as messages and annotations name it: relative, if it is below this folder."""
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return os.path.relpath(path)
    return str(path)


def _installations(name: str, pins: Iterable[LabelledPin]) -> Iterator[Installation]:
    """Yield the pins that always hold, alone and with each extra or group that adds to them."""
    by_label = dict(group_by_key(pins))
    base = by_label.pop(None, [])
    if base:
        yield Installation(name, tuple(dict.fromkeys(base)))
    for label, label_pins in by_label.items():
        if set(label_pins) - set(base):
            all_pins = dict.fromkeys([*base, *label_pins])
            yield Installation(f"{name} ({label})", tuple(all_pins))
