"""Temporary folders that are removed even after their process was killed.

Each lies in a folder of its own beside a lock file, whose lock ends with the process. The next
process removes folders with a free lock.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PREFIX = "flacheck-"
_LOCK, _FILES = "flacheck.lock", "files"


@dataclass(frozen=True)
class Scratch:
    """A temporary folder, `path`, until it is removed."""

    path: str
    _lock: int

    def remove(self) -> None:
        shutil.rmtree(Path(self.path).parent, ignore_errors=True)
        os.close(self._lock)


def make_folder() -> Scratch:
    """Make a temporary folder; the first call also removes those of processes that were killed."""
    remove_stale(tempfile.gettempdir())
    while True:
        outer = Path(tempfile.mkdtemp(prefix=_PREFIX))
        handle = os.open(outer / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, handle)
            # Another process may have removed the folder as stale before it was locked.
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (outer / _FILES).mkdir()
                if os.path.samestat((outer / _LOCK).stat(), os.fstat(handle)):
                    stack.pop_all()
                    return Scratch(str(outer / _FILES), handle)


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """Yield a temporary folder, removed at the end."""
    scratch = make_folder()
    try:
        yield scratch.path
    finally:
        scratch.remove()


@cache
def remove_stale(where: str) -> None:
    for outer in Path(where).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = outer.lstat()
            # In a folder that all users share, anyone may make a link of that name.
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            # A folder without a lock file belongs to another program.
            handle = os.open(outer / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(outer, ignore_errors=True)
            finally:
                os.close(handle)
