"""Who read a value that nobody knows, and whether a launch may follow from what was made up for it."""

from __future__ import annotations

import sys
import threading

from .origin import program

_LIBRARIES = (
    "torch",
    "numpy",
    "triton",
    "contextlib",
    "functools",
    "threading",
    __name__.partition(".")[0],
)


class Readers:
    """`note(place, kind)` hears of each guess: `module:line` of the program, and what was read
    there.
    """

    def __init__(self, note) -> None:
        self._note = note
        self._local = threading.local()

    def guessed(self, kind: str) -> None:
        """The program reads something unknown right now, directly or through a library."""
        frames = [frame for frame in _stack(sys._getframe(1)) if _package(frame) not in _LIBRARIES]
        if not frames:
            return
        place = f"{_module(frames[0])}:{frames[0].f_lineno}"
        self._note(place, kind)
        mine = [frame for frame in frames if _package(frame) == _package(frames[0])]
        self._following()[mine[-1]] = place

    def followed(self) -> str | None:
        """Where the last guess was made by something that has not returned to another package
        since: what the program does from there on may rest on it. None when no such guess was made.
        """
        following = self._following()
        if following:
            running = set(_stack(sys._getframe(1)))
            for frame in following.keys() - running:
                del following[frame]
        return next(reversed(following.values()), None)

    def _following(self) -> dict:
        """The outermost frame of the reader's package, kept so that no other can pass for it →
        where it read.
        """
        if not hasattr(self._local, "following"):
            self._local.following = {}
        return self._local.following


def _stack(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module(frame) -> str:
    name = frame.f_globals.get("__name__") or "?"
    return program() if name == "__main__" else name


def _package(frame) -> str:
    return (frame.f_globals.get("__name__") or "?").partition(".")[0]
