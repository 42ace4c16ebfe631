"""Warnings about Triton or torch releases that a package emits while it is imported and called."""

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# For example "Current Triton version 3.1.0 is below the recommended 3.2.0".
_RELEASE_WARNING = re.compile(r"\b(?:triton|torch)\b[^\n]*\d+\.\d+", re.IGNORECASE)
# Each text is kept once; a package that emits more texts than this emits one for every call.
_MAX_WARNINGS = 20

# The text of each warning → the logger or file that emitted it.
WarningsLog = dict[str, str]


class _LogHandler(logging.Handler):
    """A logging handler that copies warnings about releases into a log."""

    def __init__(self, log: WarningsLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        _add_warning(self._log, record.getMessage(), record.name)


@contextmanager
def record_warnings() -> Iterator[WarningsLog]:
    """Record warnings about a release of Triton or torch; the user sees them as usual."""
    log: WarningsLog = {}
    show = warnings.showwarning

    def showwarning(message: Any, category: Any, filename: str, *args: Any, **options: Any) -> None:
        if not is_triton_file(filename):
            _add_warning(log, str(message), filename)
        show(message, category, filename, *args, **options)

    # Python prints log records only while the root logger lacks a handler. This handler would
    # silence them, so a stream handler prints them.
    stream_handler = logging.StreamHandler(sys.stderr)
    stream_handler.setLevel(logging.WARNING)
    handlers = (_LogHandler(log), stream_handler)
    logger = logging.getLogger()
    warnings.showwarning = showwarning
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield log
    finally:
        warnings.showwarning = show
        for handler in handlers:
            logger.removeHandler(handler)


def is_triton_file(filename: str) -> bool:
    """Return True for files inside the Triton package."""
    triton = sys.modules.get("triton")
    if triton is None:
        return False
    # Reading the attribute would appear in the trace of Triton's API; the dictionary is not traced.
    triton_init = vars(triton).get("__file__")
    if triton_init is None:
        return False
    folder = os.path.dirname(triton_init) + os.sep
    return filename.startswith(folder)


def _add_warning(log: WarningsLog, text: str, source: str) -> None:
    line = " ".join(text.split())
    if _RELEASE_WARNING.search(line) and len(log) < _MAX_WARNINGS:
        log.setdefault(line, source)
