"""The folders of the cache: their kinds, sizes and last use, and their removal."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from flacheck.model.housekeeping import Action, CacheEntry, CacheListing
from flacheck.toolchains import cache, filling

# The folders below the cache's root. What is in them is installed or captured again on demand.
KINDS = ("toolchains", "packages", "captures", "sources", "headers", "links", "index", "binaries")
# The kinds that are one folder of files.
_OF_FILES = ("index", "binaries")
_DAY = 86_400.0


def entries() -> Iterator[CacheEntry]:
    """Yield every folder of the cache by kind, complete or not, the largest first."""
    for kind in KINDS:
        folder = cache.root() / kind
        if kind in _OF_FILES:
            if folder.is_dir():
                yield _entry(kind, folder)
            continue
        # Locks begin with a dot; so do temporary folders, which their owners remove.
        names = [each for each in folder.glob("[!.]*") if each.is_dir()]
        yield from sorted((_entry(kind, each) for each in names), key=lambda each: -each.bytes)


def remove(chosen: Iterable[CacheEntry], dry_run: bool) -> CacheListing:
    """Remove folders one by one; those that another process uses are marked and stay."""
    action = Action.REMOVE
    if dry_run:
        action = Action.DRY_RUN
    removed = []
    for entry in chosen:
        if not dry_run:
            entry = _remove(entry)
        removed.append(entry)
    return CacheListing(folder=str(cache.root()), action=action, entries=removed)


def _remove(entry: CacheEntry) -> CacheEntry:
    try:
        filling.discard([Path(entry.path)])
    except filling.InUse:
        return replace(entry, in_use=True)
    except FileNotFoundError:
        # Another process removed it meanwhile.
        pass
    return entry


def _entry(kind: str, folder: Path) -> CacheEntry:
    last_use = folder.stat().st_mtime
    with contextlib.suppress(OSError):
        last_use = max(last_use, filling.last_use(folder))
    age = max(0.0, time.time() - last_use) / _DAY
    return CacheEntry(kind, folder.name, str(folder), _bytes(folder), round(age, 3))


def _bytes(folder: Path) -> int:
    """Return the size of the files below a folder; links count as links."""
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            # A file may be removed while its folder is read.
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(where, name)).st_size
    return size
