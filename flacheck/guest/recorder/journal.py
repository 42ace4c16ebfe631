"""The launches file as it is written: a line is one append, so that it is there even if the next
step kills us.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import sys
import threading
import time

SCHEMA = "flacheck.launches/1"
_COUNT_EVERY = 2.0


def digest(value) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _guess(place: str, kind: str, count: int) -> dict:
    return {"guessed": kind, "at": place, "count": count}


class Journal:
    """Each distinct launch once, then how many more of it there were. Any thread may tell it of
    one.
    """

    def __init__(self, settings) -> None:
        self._settings = settings
        # Reentrant, for a signal may come in between. Nothing of the program's is waited for while
        # it is held.
        self._lock = threading.RLock()
        self._written: set[str] = set()
        self._sources: set[str] = set()
        self._more: dict[str, int] = {}
        self._guesses: dict[tuple, int] = {}
        self._counted = time.monotonic()
        self._begun = False
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.flush, after_in_child=self._forked)

    def launch(
        self, line: dict, source: str | None, text: str | None, remarks: dict, sizes
    ) -> None:
        """`remarks` are no part of what makes a launch distinct, nor is what `sizes()` gives: it is
        only asked of the first of equal launches.
        """
        identity = digest(line)
        placed = {} if identity in self._written else sizes()
        with self._lock:
            if not self._begun:
                self._begin()
            if identity in self._written:
                self._again(identity)
                return
            self._written.add(identity)
            extra = {name: value for name, value in remarks.items() if value is not None}
            if text is not None and source not in self._sources:
                self._sources.add(source)
                extra["text"] = text
            self._append({"id": identity, **line, **placed, **extra})

    def _again(self, identity: str) -> None:
        self._more[identity] = self._more.get(identity, 0) + 1
        if time.monotonic() - self._counted > _COUNT_EVERY:
            self.flush()

    def guess(self, place: str, kind: str) -> None:
        """A value of this kind was made up for the program at this place: a new one is written at
        once, when there is a file yet; a program that launches nothing needs none.
        """
        with self._lock:
            new = (place, kind) not in self._guesses
            self._guesses[place, kind] = self._guesses.get((place, kind), 0) + 1
            if new:
                self.flush()

    def flush(self) -> None:
        with self._lock:
            if not self._begun:
                return
            more, self._more = self._more, {}
            self._counted = time.monotonic()
            lines = [{"of": identity, "count": count} for identity, count in more.items()]
            lines += [_guess(*which, count) for which, count in self._guesses.items() if count]
            self._guesses = dict.fromkeys(self._guesses, 0)
            if lines:
                self._append(*lines)

    def _forked(self) -> None:
        """What the parent counted and could not write yet is the parent's, and so is the thread
        that holds the lock.
        """
        self._lock = threading.RLock()
        self._guesses.clear()

    def _begin(self) -> None:
        self._begun = True
        card = self._settings.card
        self._append(
            {
                "schema": SCHEMA,
                "package": self._settings.package,
                "device": "real" if card is None else card["gpu"],
                "triton": getattr(sys.modules.get("triton"), "__version__", None),
                "torch": getattr(sys.modules.get("torch"), "__version__", None),
            }
        )

    def _append(self, *values: dict) -> None:
        written = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()
        file = os.open(self._settings.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            while written:
                written = written[os.write(file, written) :]
        finally:
            os.close(file)
