"""The launches file as it is written: a line is one append, kept even if the next step kills us."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

# As `flacheck/model/launch.py` says it, which is not imported in this interpreter.
SCHEMA = "flacheck.launches/1"
# A program may launch thousands of times a second, and a kill loses the counts since the last line.
_SECONDS_BETWEEN_COUNTS = 2.0

Line = dict[str, Any]
# Dotted names of functions, outermost first.
Path = tuple[str, ...]


class Journal:
    """Each distinct launch once, then how many more of it there were. Any thread may tell it of
    one; `seen` is told the identity of each, new or not."""

    def __init__(self, output: str, package: str | None, device: str) -> None:
        self.output, self._package, self._device = output, package, device
        self.on_launch: Callable[[str], object] = lambda identity: None
        # How many values were made up for the program so far.
        self.guesses = 0
        # Reentrant, for a signal may come in between. Nothing of the program's is waited for while
        # it is held.
        self._lock = threading.RLock()
        self._written: set[str] = set()
        self._sources: set[str] = set()
        # Kernels with their sources, of which a line says already where they stand.
        self._placed: set[tuple[str, str | None]] = set()
        self._more: dict[str, int] = {}
        # Call paths: the digest of each, of each launch, and what is not written yet of both.
        self._paths: dict[Path, str] = {}
        self._paths_of: dict[str, set[Path]] = {}
        self._new_paths: list[Path] = []
        self._more_paths: dict[str, list[str]] = {}
        self._guesses: dict[tuple[str, str], int] = {}
        self._counted = time.monotonic()
        self._begun = False
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.flush, after_in_child=self._forked)

    def launch(
        self,
        line: Line,
        text: str | None,
        remarks: Line,
        sizes: Callable[[], Line],
        path: Path = (),
        defined: Sequence[Line] = (),
    ) -> str:
        """The identity of the launch. `text` is that of the line's source; `remarks` are no part of
        what makes a launch distinct, nor are the call `path` by which it came, of which it keeps
        all, and what `sizes()` gives: that is only asked of the first of equal launches. `defined`
        says where the functions of the source stand."""
        distinct = json.dumps(line, sort_keys=True, separators=(",", ":"))
        identity = hashlib.sha256(distinct.encode()).hexdigest()[:16]
        self.on_launch(identity)
        placed = {}
        if identity not in self._written:
            placed = sizes()
        with self._lock:
            self.begin()
            new_path = self._new_path(identity, path)
            if identity in self._written:
                self._count(identity, new_path)
                return identity
            self._written.add(identity)
            extra = {name: value for name, value in remarks.items() if value is not None}
            if text is not None and line["source"] not in self._sources:
                self._sources.add(line["source"])
                extra["text"] = text
            told = line["kernel"], line["source"]
            if defined and told not in self._placed:
                self._placed.add(told)
                extra["defined"] = list(defined)
            named = {"id": identity, **line, **placed, "paths": new_path, **extra}
            self._append(*self._path_lines(), named)
            return identity

    def again(self, identity: str, path: Path = ()) -> None:
        """One more of a launch that has its line, by its identity."""
        self.on_launch(identity)
        with self._lock:
            self._count(identity, self._new_path(identity, path))

    def _count(self, identity: str, new_path: list[str]) -> None:
        self._more[identity] = self._more.get(identity, 0) + 1
        if new_path:
            self._more_paths.setdefault(identity, []).extend(new_path)
        if time.monotonic() - self._counted > _SECONDS_BETWEEN_COUNTS:
            self.flush()

    def _new_path(self, identity: str, path: Path) -> list[str]:
        """The digest of a path, if this launch did not come by it before; no path has none."""
        seen = self._paths_of.setdefault(identity, set())
        if path in seen or not path:
            return []
        seen.add(path)
        if path not in self._paths:
            # A dozen digits tell apart as many paths as a program can have.
            self._paths[path] = hashlib.sha256("\n".join(path).encode()).hexdigest()[:12]
            self._new_paths.append(path)
        return [self._paths[path]]

    def _path_lines(self) -> list[Line]:
        """The paths that no line said yet: they stand before the lines that refer to them."""
        new, self._new_paths = self._new_paths, []
        return [{"path": self._paths[path], "through": path} for path in new]

    def guess(self, at: str, kind: str) -> None:
        """A value of this kind was made up for the program at `module:line`: a new one is written
        at once, when there is a file yet; a program that launches nothing needs none."""
        with self._lock:
            self.guesses += 1
            new = (at, kind) not in self._guesses
            self._guesses[at, kind] = self._guesses.get((at, kind), 0) + 1
            if new:
                self.flush()

    def flush(self) -> None:
        with self._lock:
            if not self._begun:
                return
            more, self._more = self._more, {}
            self._counted = time.monotonic()
            paths, self._more_paths = self._more_paths, {}
            lines = self._path_lines()
            for each, count in more.items():
                counted: Line = {"of": each, "count": count}
                if each in paths:
                    counted["paths"] = paths[each]
                lines.append(counted)
            for (at, kind), count in self._guesses.items():
                if count:
                    lines.append({"guessed": kind, "at": at, "count": count})
            self._guesses = dict.fromkeys(self._guesses, 0)
            if lines:
                self._append(*lines)

    def _forked(self) -> None:
        """What the parent counted is the parent's, and so is the thread that holds the lock."""
        self._lock = threading.RLock()
        self._guesses.clear()

    def begin(self) -> None:
        """Write the header, unless that was done."""
        if self._begun:
            return
        self._begun = True
        header = {"schema": SCHEMA, "package": self._package, "device": self._device}
        for name in ("triton", "torch"):
            header[name] = getattr(sys.modules.get(name), "__version__", None)
        self._append(header)

    def _append(self, *lines: Line) -> None:
        rest = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
        file = os.open(self.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)
