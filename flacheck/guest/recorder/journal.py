"""The writer of the launches file. A line is one append, kept if the process is killed."""

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

# The value in `flacheck/model/launch.py`, which is not imported in this interpreter.
SCHEMA = "flacheck.launches/1"
# A program may launch thousands of times a second. A kill loses the counts since the last line.
_SECONDS_BETWEEN_COUNTS = 2.0

Line = dict[str, Any]
# Dotted names of functions, outermost first.
Path = tuple[str, ...]


class Journal:
    """A launches file: each distinct launch once, then the number of its repetitions.

    Any thread may report launches. `on_launch` is called with the identity of each, new or not.
    """

    def __init__(self, output: str, package: str | None, device: str) -> None:
        self.output, self._package, self._device = output, package, device
        self.on_launch: Callable[[str], object] = lambda identity: None
        # The number of values that were made up for the program so far.
        self.guesses = 0
        self.seconds_between_counts = _SECONDS_BETWEEN_COUNTS
        # Reentrant, because a signal may interrupt. The journal never waits for the program while
        # it holds the lock.
        self._lock = threading.RLock()
        self._written: set[str] = set()
        self._sources: set[str] = set()
        # Kernels and sources whose `defined` has been written.
        self._defined: set[tuple[str, str | None]] = set()
        self._more: dict[str, int] = {}
        # Call paths: the digest of each, those of each launch, and those of both that are not
        # written yet.
        self._paths: dict[Path, str] = {}
        self._paths_of: dict[str, set[Path]] = {}
        self._new_paths: list[Path] = []
        self._more_paths: dict[str, list[str]] = {}
        self._guesses: dict[tuple[str, str], int] = {}
        self._last_count = time.monotonic()
        self._has_header = False
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.flush, after_in_child=self._start_in_child)

    def launch(
        self,
        line: Line,
        text: str | None,
        remarks: Line,
        sizes: Callable[[], Line],
        path: Path = (),
        definitions: Sequence[Line] = (),
    ) -> str:
        """Record a launch and return its identity.

        `text` is the text of the line's source, `remarks` are additions that do not make a launch
        distinct. The call `path` is not part of the identity either; all paths of a launch are
        kept. `sizes()` returns more fields and is only called for the first of equal launches.
        `definitions` are the places of the source's functions.
        """
        text_form = json.dumps(line, sort_keys=True, separators=(",", ":"))
        identity = _digest(text_form)[:16]
        self.on_launch(identity)
        memory = {}
        if identity not in self._written:
            memory = sizes()
        with self._lock:
            self.begin()
            new_path = self._new_path(identity, path)
            if identity in self._written:
                self._count(identity, new_path)
                return identity
            self._written.add(identity)
            entry = {"id": identity, **line, **memory, "paths": new_path}
            for name, value in remarks.items():
                if value is not None:
                    entry[name] = value
            source = line["source"]
            if text is not None and source not in self._sources:
                self._sources.add(source)
                entry["text"] = text
            kernel_and_source = line["kernel"], source
            if definitions and kernel_and_source not in self._defined:
                self._defined.add(kernel_and_source)
                entry["defined"] = list(definitions)
            self._append(*self._path_lines(), entry)
            return identity

    def again(self, identity: str, path: Path = ()) -> None:
        """Record one more launch of an identity that has a line."""
        self.on_launch(identity)
        with self._lock:
            self._count(identity, self._new_path(identity, path))

    def _count(self, identity: str, new_path: list[str]) -> None:
        self._more[identity] = self._more.get(identity, 0) + 1
        if new_path:
            self._more_paths.setdefault(identity, []).extend(new_path)
        if time.monotonic() - self._last_count > self.seconds_between_counts:
            self.flush()

    def _new_path(self, identity: str, path: Path) -> list[str]:
        """Return the digest of a path if it is new for this launch, else an empty list."""
        paths = self._paths_of.setdefault(identity, set())
        if path in paths or not path:
            return []
        paths.add(path)
        if path not in self._paths:
            # Twelve digits distinguish all paths of a program.
            digest = _digest("\n".join(path))
            self._paths[path] = digest[:12]
            self._new_paths.append(path)
        return [self._paths[path]]

    def _path_lines(self) -> list[Line]:
        """Return the lines of new paths, which come before the lines that refer to them."""
        lines: list[Line] = []
        for path in self._new_paths:
            line = {"path": self._paths[path], "through": path}
            lines.append(line)
        self._new_paths = []
        return lines

    def guess(self, at: str, kind: str) -> None:
        """Record that a value of this kind was made up for the program at `module:line`.

        A new guess is written at once if the file exists. A program without launches needs no file.
        """
        with self._lock:
            self.guesses += 1
            count = self._guesses.get((at, kind))
            self._guesses[at, kind] = (count or 0) + 1
            if count is None:
                self.flush()

    def flush(self) -> None:
        with self._lock:
            if not self._has_header:
                return
            more, self._more = self._more, {}
            self._last_count = time.monotonic()
            paths, self._more_paths = self._more_paths, {}
            lines = self._path_lines()
            for each, count in more.items():
                repetition: Line = {"of": each, "count": count}
                if each in paths:
                    repetition["paths"] = paths[each]
                lines.append(repetition)
            for (at, kind), count in self._guesses.items():
                if count:
                    lines.append({"guessed": kind, "at": at, "count": count})
            self._guesses = dict.fromkeys(self._guesses, 0)
            if lines:
                self._append(*lines)

    def _start_in_child(self) -> None:
        """Drop the counts and the lock, which belong to the parent process."""
        self._lock = threading.RLock()
        self._guesses.clear()

    def begin(self) -> None:
        """Write the header once."""
        if self._has_header:
            return
        self._has_header = True
        header: Line = {"schema": SCHEMA}
        header["package"] = self._package
        header["device"] = self._device
        for name in ("triton", "torch"):
            module = sys.modules.get(name)
            header[name] = getattr(module, "__version__", None)
        self._append(header)

    def _append(self, *lines: Line) -> None:
        text = ""
        for line in lines:
            text += json.dumps(line, ensure_ascii=False) + "\n"
        rest = text.encode()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        file = os.open(self.output, flags, 0o644)
        try:
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
