"""The user's cache: where it is, what complete folders it holds, and its small files."""

from __future__ import annotations

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
    """`$FLACHECK_CACHE_DIR`, else `flacheck` in `$XDG_CACHE_HOME`, else `~/.cache/flacheck`."""
    own = os.environ.get("FLACHECK_CACHE_DIR")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path("~/.cache").expanduser()).absolute() / "flacheck"


def python_tag() -> str:
    """What a folder's compiled files fit: `cp311`, on other machines than x86_64 `cp311-aarch64`."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    machine = platform.machine()
    return tag if machine == "x86_64" else f"{tag}-{machine}"


@dataclass(frozen=True)
class Shelf:
    """A complete folder of the cache with what its manifest says."""

    path: Path
    manifest: dict[str, Any]


def read_shelf(folder: Path) -> Shelf | None:
    """The folder when it is complete, else None."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    return Shelf(folder, manifest) if isinstance(manifest, dict) else None


def shelves(kind: str) -> Iterator[Shelf]:
    """The complete folders of a kind ("toolchains", "packages"), by name."""
    folder = root() / kind
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    for name in names:
        shelf = None if name.startswith(".") else read_shelf(folder / name)
        if shelf is not None:
            yield shelf


def read_json(name: str) -> dict[str, Any]:
    """A small file of the cache, empty when it is not there or not readable."""
    try:
        value = json.loads((root() / name).read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(name: str, value: dict[str, Any]) -> None:
    """Replace a small file in one step; a cache that cannot be written is no error."""
    path = root() / name
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
        with open(handle, "w") as file:
            json.dump(value, file)
        os.replace(temporary, path)


def size_mb(folder: Path) -> int:
    """The bytes below a folder in units of 10**6, links not followed."""
    files = (
        os.lstat(os.path.join(where, name)) for where, _, names in os.walk(folder) for name in names
    )
    return round(sum(found.st_size for found in files) / 1e6)
