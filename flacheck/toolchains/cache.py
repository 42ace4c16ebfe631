"""The user's cache: its place, its complete folders, and its small files."""

import contextlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "flacheck.json"
TEMPORARY = ".tmp-"


def root() -> Path:
    """Return `$FLACHECK_CACHE_DIR`, `$XDG_CACHE_HOME/flacheck` or `~/.cache/flacheck`."""
    own = os.environ.get("FLACHECK_CACHE_DIR")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(shared).absolute() / "flacheck"


def python_tag() -> str:
    """Return the tag of compiled files: `cp311`, on other machines `cp311-aarch64`."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}"
    return f"{tag}-{platform.machine()}".removesuffix("-x86_64")


@dataclass(frozen=True)
class Shelf:
    """A complete folder of the cache with its manifest."""

    path: Path
    manifest: dict[str, Any]


def read_shelf(folder: Path) -> Shelf | None:
    """Return the folder if it is complete, else None."""
    manifest = _read(folder / MANIFEST)
    if manifest is None:
        return None
    return Shelf(folder, manifest)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    # Files of other programs and half-written files are not manifests.
    if not isinstance(value, dict):
        return None
    return value


def shelves(kind: str) -> Iterator[Shelf]:
    """Yield the complete folders of a kind ("toolchains", "packages"), by name."""
    # Temporary folders and locks begin with a dot, which `*` leaves out.
    for folder in sorted(root().glob(f"{kind}/[!.]*")):
        shelf = read_shelf(folder)
        if shelf is not None:
            yield shelf


def read_json(name: str) -> dict[str, Any]:
    """Return a small file of the cache, empty if it is missing or unreadable."""
    return _read(root() / name) or {}


def write_json(name: str, value: dict[str, Any]) -> None:
    """Replace a small file in one step; an unwritable cache is not an error."""
    path = root() / name
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
        with open(handle, "w") as file:
            json.dump(value, file)
        os.replace(temporary, path)


def size_mb(folder: Path) -> int:
    """Return the size of the files below a folder in units of 10**6 bytes; links count as links."""
    size = 0
    for where, _, names in os.walk(folder):
        size += sum(os.lstat(os.path.join(where, name)).st_size for name in names)
    return round(size / 1e6)
