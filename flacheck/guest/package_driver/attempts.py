"""Runs a piece of somebody else's package: it may raise, hang or exit, and the drive goes on."""

from __future__ import annotations

import linecache
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


class TooLong(BaseException):
    """The piece used up its time; no package's own `except Exception` stops it."""


@dataclass(frozen=True)
class CaughtError:
    """The error that a piece raised: its type, its text, the lines of source it went through
    (innermost last), and its whole traceback."""

    kind: str
    text: str
    lines: tuple[str, ...]
    trace: str

    def brief(self) -> str:
        said = " ".join(self.text.split())[:300]
        if not said and self.lines:
            said = self.lines[-1]
        return f"{self.kind}: {said}"


def attempt(piece: Callable[[], T], seconds: float) -> T | CaughtError:
    """What the piece returns, or the error that it raised, within so many seconds of CPU."""

    def stop(*_: object) -> None:
        raise TooLong(f"took more than {seconds:g} s")

    # CPU time, not the clock: what a call is worth does not depend on how busy the machine is.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return piece()
    except (Exception, SystemExit, TooLong) as error:
        # The first frame is ours.
        frames = traceback.extract_tb(error.__traceback__)[1:]
        lines = [linecache.getline(each.filename, each.lineno or 0).strip() for each in frames]
        trace = "".join(traceback.format_exception(error))
        return CaughtError(type(error).__name__, str(error), tuple(lines), trace)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
