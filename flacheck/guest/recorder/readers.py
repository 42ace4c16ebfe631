"""Who read a value that nobody knows, and whether a launch may follow from it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from .identity import program

# What a program reads through; a guess is the doing of who called these.
_GUEST = __name__.partition(".")[0]
_LIBRARIES = (*"torch numpy triton contextlib functools threading".split(), _GUEST)


class _ThreadsReads(threading.local):
    """What one thread's functions have read."""

    def __init__(self) -> None:
        # The outermost frame of the reader's package → where it read. Frames are kept, not their
        # ids, so that no other can pass for one.
        self.following: dict[FrameType, str] = {}


class Readers:
    """`note(at, kind)` hears of each guess: `module:line` of the program, and what it read."""

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self._note = note
        self._thread = _ThreadsReads()

    def guessed(self, kind: str) -> None:
        """The program reads something unknown right now, directly or through a library."""
        frames = [frame for frame in _stack(sys._getframe(1)) if _package(frame) not in _LIBRARIES]
        if not frames:
            return
        at = f"{_module(frames[0])}:{frames[0].f_lineno}"
        self._note(at, kind)
        mine = [frame for frame in frames if _package(frame) == _package(frames[0])]
        self._thread.following[mine[-1]] = at

    def followed(self) -> str | None:
        """Where the last guess was made by something that has not returned to another package
        since: what the program does from there on may rest on it. None when no such guess was made.
        """
        following = self._thread.following
        if following:
            running = set(_stack(sys._getframe(1)))
            for frame in following.keys() - running:
                del following[frame]
        return next(reversed(following.values()), None)


def _stack(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    name = _name(frame)
    if name == "__main__":
        return program()
    return name


def _package(frame: FrameType) -> str:
    return _name(frame).partition(".")[0]


def _name(frame: FrameType) -> str:
    return frame.f_globals.get("__name__") or "?"
