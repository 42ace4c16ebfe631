"""Files that a package writes into its own folder, which is read-only: they go to another folder.

Some packages write rendered kernels or tuning results beside their modules when they are imported.
"""

from __future__ import annotations

import builtins
import io
import os
import tempfile
from collections.abc import Iterable
from typing import Any

_WRITE_MODES = frozenset("wax+")


def redirect_writes(folders: Iterable[str]) -> None:
    """Redirect what this process writes below some folders, and what it reads of that."""
    files = _RedirectedFiles(tuple(folders))
    builtins.open = io.open = files.open
    os.mkdir = files.mkdir


class _RedirectedFiles:
    """Replacements of Python's functions for files."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders
        # The folder in place of each of `folders`, made when it is first needed.
        self._copies: dict[str, str] = {}
        self._plain_open: Any = io.open
        self._plain_mkdir = os.mkdir

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Open a file; replaces `open`."""
        try:
            return self._plain_open(file, mode, *args, **kwargs)
        except (PermissionError, FileNotFoundError) as error:
            path = self._redirected_path(file)
            if path is None:
                raise
            needed = path
            if not _WRITE_MODES.isdisjoint(mode):
                needed = os.path.dirname(path)
                if isinstance(error, PermissionError):
                    # The package's own folder exists.
                    os.makedirs(needed, exist_ok=True)
            if not os.path.exists(needed):
                raise
            return self._plain_open(path, mode, *args, **kwargs)

    def mkdir(self, path: Any, mode: int = 0o777, **kwargs: Any) -> None:
        """Make a folder; replaces `os.mkdir`."""
        try:
            self._plain_mkdir(path, mode, **kwargs)
        except PermissionError:
            redirected_path = self._redirected_path(path)
            if redirected_path is None:
                raise
            os.makedirs(redirected_path, mode, exist_ok=True)

    def _redirected_path(self, path: Any) -> str | None:
        """Return the path in place of one below a package's folder, else None."""
        if not isinstance(path, (str, os.PathLike)):
            return None
        name = os.path.abspath(os.fspath(path))
        for folder in self._folders:
            if name.startswith(folder + os.sep):
                if folder not in self._copies:
                    self._copies[folder] = tempfile.mkdtemp(prefix="written-")
                return os.path.join(self._copies[folder], name[len(folder) + 1 :])
        return None
