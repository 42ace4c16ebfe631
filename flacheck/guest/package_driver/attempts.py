"""Runs a piece of somebody else's package: it may raise anything, hang, or exit, and the drive goes
on.
"""

from __future__ import annotations

import contextlib
import linecache
import signal
import traceback
from dataclasses import dataclass


class TooLong(BaseException):
    """The piece used up its time; no package's own `except Exception` stops it."""


@dataclass(frozen=True)
class Failure:
    """What a piece raised: its type, its text, the lines of source it went through (innermost
    last).
    """

    kind: str
    text: str
    lines: tuple[str, ...]
    trace: str

    def brief(self) -> str:
        said = " ".join(self.text.split())[:300] or (self.lines[-1].strip() if self.lines else "")
        return f"{self.kind}: {said}"


def attempt(piece, seconds: float):
    """`(result, None)`, or `(None, Failure)`; `seconds` of CPU at most."""
    with _limited(seconds):
        try:
            return piece(), None
        except (Exception, SystemExit, TooLong) as error:
            return None, _failure(error)


@contextlib.contextmanager
def _limited(seconds: float):
    def stop(*_):
        raise TooLong(f"took more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _failure(error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    lines = tuple(linecache.getline(frame.filename, frame.lineno or 0).strip() for frame in frames)
    return Failure(
        type(error).__name__, str(error), lines, "".join(traceback.format_exception(error))
    )
