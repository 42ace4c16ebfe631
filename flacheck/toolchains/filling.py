"""Folders of the cache that are either complete or absent, whoever is killed while filling them."""

import contextlib
import errno
import fcntl
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flacheck.errors import ToolchainError
from flacheck.toolchains.cache import MANIFEST, TEMPORARY, Shelf, read_shelf

_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which dies with its process; say so when another process has it."""
    locks = folder.parent / ".locks"
    with explained(folder):
        locks.mkdir(parents=True, exist_ok=True)
        handle = os.open(locks / f"{folder.name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _LOG.info(f"waiting for another flacheck that is at work on {folder.name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def fill(folder: Path, make: Callable[[Path], dict[str, Any]]) -> Shelf:
    """The folder, made by `make(temporary) -> manifest` when it is not complete yet.

    The manifest is written last and the temporary sibling renamed after it is on the disk, all
    under the folder's lock, so that what bears the final name is complete.
    """
    shelf = read_shelf(folder)
    if shelf:
        return shelf
    with locked(folder):
        # Whoever held the lock may have filled it.
        shelf = read_shelf(folder)
        if shelf:
            return shelf
        with explained(folder), _temporary(folder) as temporary:
            manifest = make(temporary)
            with open(temporary / MANIFEST, "w") as file:
                json.dump(manifest, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            shutil.rmtree(folder, ignore_errors=True)
            temporary.rename(folder)
            # A rename lasts over a power cut once the folder that holds the name is on the disk.
            handle = os.open(folder.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    return Shelf(folder, manifest)


def discard(folder: Path) -> None:
    """Remove a folder: first its name, in one step, then its files."""
    with locked(folder), explained(folder):
        grave = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{folder.name}-", dir=folder.parent))
        folder.rename(grave / folder.name)
        shutil.rmtree(grave)


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """A new sibling, gone at the end; those that killed processes left go first."""
    for stale in folder.parent.glob(f"{TEMPORARY}*"):
        _sweep(stale, folder.name)
    temporary = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{folder.name}-", dir=folder.parent))
    temporary.chmod(0o755)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sweep(stale: Path, ours: str) -> None:
    """Remove a temporary folder whose lock nobody else holds; we hold the lock of `ours`."""
    owner = stale.name[len(TEMPORARY) :].rpartition("-")[0]
    if owner == ours:
        shutil.rmtree(stale, ignore_errors=True)
        return
    lock = stale.parent / ".locks" / f"{owner}.lock"
    with open(lock, "w") as handle, contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(stale, ignore_errors=True)


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn the system's refusals into one message that says what to do."""
    try:
        yield
    except OSError as error:
        raise ToolchainError(explain(error, folder)) from error


def explain(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(folder)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return no_permission(folder)
    why = error.strerror or error
    return f"cannot write {folder}: {why}; set FLACHECK_CACHE_DIR to another folder"


def no_space(folder: Path) -> str:
    return (
        f"no space left on the device while filling {folder}; free some (`flacheck toolchain"
        " remove` drops releases, each takes up to 1 GB) or set FLACHECK_CACHE_DIR to a folder on a"
        " larger disk"
    )


def no_permission(folder: Path) -> str:
    return f"no permission to write {folder}; set FLACHECK_CACHE_DIR to a folder that you may write"
