"""Detection of changes in the files of a folder in use."""

import os
from collections.abc import Mapping
from pathlib import Path

# Path → its size and the time of its last change.
FileStates = Mapping[str, tuple[int, int]]
# Python writes these while a compiler runs.
_WRITTEN_AT_WORK = "__pycache__"
# A scan writes its own results, which may lie in the project: the database and its journal.
_STORE = "flacheck.sqlite"


def states(folder: str | Path) -> FileStates:
    """Return the state of every file below a folder that no scan writes, links followed."""
    files = {}
    for where, folders, names in os.walk(folder, followlinks=True):
        if _WRITTEN_AT_WORK in folders:
            folders.remove(_WRITTEN_AT_WORK)
        for name in names:
            if name.startswith(_STORE):
                continue
            path = os.path.join(where, name)
            state = _state(path)
            if state is not None:
                files[path] = state
    return files


def first_change(before: FileStates) -> str | None:
    """Return the first file that is missing or changed, None if all are unchanged."""
    for path, state in before.items():
        if _state(path) != state:
            return path
    return None


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
