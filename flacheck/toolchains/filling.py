"""Folders of the cache that are complete or absent even if a process is killed on the way."""

import contextlib
import errno
import fcntl
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from flacheck.errors import ToolchainError, UsageError
from flacheck.toolchains.cache import MANIFEST, TEMPORARY, Shelf, read_shelf

_LOG = logging.getLogger(__name__)

_LONGEST_COMMAND = 80


class InUse(UsageError):
    """A folder cannot be removed because other processes use it."""

    def __init__(self, folder: Path, holders: list[str]) -> None:
        users = ", ".join(holders) or "another flacheck process"
        super().__init__(
            f"{folder.name} is in use by {users}; wait until it has ended, or end it, and give the"
            " command again"
        )


# Locks of the folders in use, each shared with the other processes that use it.
IN_USE: dict[Path, int] = {}


def keep(folder: Path) -> None:
    """Keep other processes from removing a folder until this one ends."""
    if folder in IN_USE:
        return
    # An unwritable cache takes no lock, and nothing can be removed from it.
    with contextlib.suppress(OSError):
        handle = _open_lock(folder, ".use")
        fcntl.flock(handle, fcntl.LOCK_SH)
        IN_USE[folder] = handle
        # The lock file's time is that of the folder's last use.
        os.utime(handle)


def last_use(folder: Path) -> float:
    """Return the time in seconds since 1970 when a process last took a folder into use.

    Raises OSError for a folder that no process used yet.
    """
    return (folder.parent / ".locks" / f"{folder.name}.use").stat().st_mtime


@contextlib.contextmanager
def _hold_exclusively(folder: Path) -> Iterator[None]:
    """Hold a folder that no other process uses; raise InUse for one that is in use."""
    with explain_os_errors(folder):
        # A shared lock of this process becomes exclusive; on another handle the system would reject
        # it.
        handle = IN_USE.pop(folder, None) or _open_lock(folder, ".use")
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(folder, _holders(handle)) from None
        yield
    finally:
        os.close(handle)


def _open_lock(folder: Path, kind: str) -> int:
    locks = folder.parent / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    return os.open(locks / f"{folder.name}{kind}", os.O_RDWR | os.O_CREAT, 0o644)


def _holders(handle: int) -> list[str]:
    """Return the processes that hold a lock on an open file, as far as the system lists them."""
    inode = str(os.fstat(handle).st_ino)
    holders = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            # The form is `1: FLOCK ADVISORY READ 4711 fe:00:2211859 0 EOF`, with an arrow for a
            # waiting one.
            fields = line.replace("->", "").split()
            if fields[1] != "FLOCK" or fields[5].rpartition(":")[2] != inode:
                continue
            process = int(fields[4])
            if process not in (0, os.getpid()):
                holders.append(f"process {process} ({_command(process)})")
    return holders


def _command(process: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
        return " ".join(words.split("\0")).strip()[:_LONGEST_COMMAND]
    return "ended meanwhile"


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which ends with its process; log a wait for another process."""
    with explain_os_errors(folder):
        handle = _open_lock(folder, ".lock")
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _LOG.info(f"waiting for another flacheck process that fills {folder.name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def fill(folder: Path, make: Callable[[Path], dict[str, Any]]) -> Shelf:
    """Return the folder, made by `make(temporary) -> manifest` if it is not complete yet.

    The manifest is written last and the temporary sibling renamed after it is on the disk, all
    under the folder's lock, so that a folder with the final name is complete. No other process can
    discard the folder while this one lives.
    """
    keep(folder)
    shelf = read_shelf(folder)
    if shelf:
        return shelf
    with hold_lock(folder):
        # Another process may have filled it under the lock.
        shelf = read_shelf(folder)
        if shelf:
            return shelf
        with explain_os_errors(folder), _temporary(folder) as temporary:
            manifest = make(temporary)
            with open(temporary / MANIFEST, "w") as file:
                json.dump(manifest, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            shutil.rmtree(folder, ignore_errors=True)
            temporary.rename(folder)
            # A rename survives a power cut once its parent folder is on the disk.
            handle = os.open(folder.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    return Shelf(folder, manifest)


def discard(folders: Iterable[Path]) -> None:
    """Remove folders: rename each in one step, then delete its files.

    Raises InUse, with nothing removed, if another process uses one of them.
    """
    with contextlib.ExitStack() as locks:
        graves = []
        all_folders = list(folders)
        for folder in all_folders:
            locks.enter_context(_hold_exclusively(folder))
        for folder in all_folders:
            with hold_lock(folder), explain_os_errors(folder):
                prefix = f"{TEMPORARY}{folder.name}-"
                grave = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
                folder.rename(grave / folder.name)
                graves.append(grave)
        for grave in graves:
            shutil.rmtree(grave, ignore_errors=True)


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """Yield a new sibling, removed at the end; leftovers of killed processes are removed first."""
    for stale in folder.parent.glob(f"{TEMPORARY}*"):
        _sweep(stale, folder.name)
    temporary = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{folder.name}-", dir=folder.parent))
    temporary.chmod(0o755)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sweep(stale: Path, ours: str) -> None:
    """Remove a temporary folder whose lock is free; this process holds the lock of `ours`."""
    owner = stale.name[len(TEMPORARY) :].rpartition("-")[0]
    if owner == ours:
        shutil.rmtree(stale, ignore_errors=True)
        return
    lock = stale.parent / ".locks" / f"{owner}.lock"
    with open(lock, "w") as handle, contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(stale, ignore_errors=True)


@contextlib.contextmanager
def explain_os_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the system into one message with a remedy."""
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
