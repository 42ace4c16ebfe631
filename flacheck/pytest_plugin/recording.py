"""The recorder of this process, as the environment describes it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The recorder's settings, for every process that a captured program starts.
_VARIABLE = "FLACHECK_CAPTURE_SETTINGS"
# The end of the folder on PYTHONPATH that starts the recorder.
_START = os.path.join("guest", "recorder", "start")


def is_on() -> bool:
    """Return True in a process whose launches are recorded."""
    return bool(os.environ.get(_VARIABLE))


def launches_file() -> Path:
    """Return the file of the launches."""
    return Path(_settings()["output"])


def has_imitated_card() -> bool:
    """Return False if the launches are those of a real card."""
    return _settings()["card"] is not None


def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(os.environ[_VARIABLE])
    return settings


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Start the processes of the block, such as compilers, without the recorder."""
    before = {name: os.environ.get(name) for name in (_VARIABLE, "PYTHONPATH")}
    folders = []
    for folder in (before["PYTHONPATH"] or "").split(os.pathsep):
        if folder and not folder.endswith(_START):
            folders.append(folder)
    os.environ.pop(_VARIABLE, None)
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                os.environ[name] = value
