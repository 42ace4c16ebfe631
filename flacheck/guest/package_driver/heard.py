"""What a package says about Triton or torch while it is imported and called: its warnings."""

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# A word on a release: "Current Triton version 3.1.0 is below the recommended 3.2.0".
_ON_A_RELEASE = re.compile(r"\b(?:triton|torch)\b[^\n]*\d+\.\d+", re.IGNORECASE)
# Each is kept once; a package that says more than this says it of every call.
_KEPT = 20


class _Handler(logging.Handler):
    def __init__(self, heard: dict[str, str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        _keep(self._heard, record.getMessage(), record.name)


@contextmanager
def listening() -> Iterator[dict[str, str]]:
    """While this lasts, warnings that speak of a release of Triton or torch are kept, each text
    with who said it. They are shown as ever."""
    heard: dict[str, str] = {}
    show = warnings.showwarning

    def showwarning(message: Any, category: Any, filename: str, *more: Any, **named: Any) -> None:
        if not is_tritons(filename):
            _keep(heard, str(message), filename)
        show(message, category, filename, *more, **named)

    handler = _Handler(heard)
    logger = logging.getLogger()
    # Without any handler of its own, Python would show what is logged; with ours it would not.
    shown = logging.StreamHandler(sys.stderr)
    shown.setLevel(logging.WARNING)
    warnings.showwarning = showwarning
    for each in (handler, shown):
        logger.addHandler(each)
    try:
        yield heard
    finally:
        warnings.showwarning = show
        for each in (handler, shown):
            logger.removeHandler(each)


def is_tritons(filename: str) -> bool:
    """Whether a file is Triton's own, which warns of its next release, say: no word of the
    package's."""
    triton = sys.modules.get("triton")
    if triton is None:
        return False
    # Not by its attribute: reading that is watched.
    held = vars(triton).get("__file__")
    return held is not None and filename.startswith(os.path.dirname(held) + os.sep)


def _keep(heard: dict[str, str], text: str, by: str) -> None:
    plain = " ".join(text.split())
    if _ON_A_RELEASE.search(plain) and len(heard) < _KEPT:
        heard.setdefault(plain, by)
