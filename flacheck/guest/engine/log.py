"""The log of a worker: the text that the compiler, Python and the programs below them print."""

from __future__ import annotations

import io
import os
import re
import sys

from . import channel

# An error as LLVM, MLIR and the assemblers print it: `error: …`, `k.py:3:4: error: …`, `<inline
# asm>:1:2: error: …`, `ptxas fatal   : …`. A warning, a remark or a note that quotes an error does
# not match. Both lengths are limited, so that a line of megabytes costs no more than others.
_ERROR = re.compile(
    rb"^(?!.{0,300}?\b(?:warning|remark|note)\s*: )"
    rb"(?:.{1,300}?[:;)] |ptxas\S{0,30}\s)?(?:fatal )?(?:error|fatal)\s*: ",
    re.MULTILINE,
)


class _PythonStream(io.FileIO):
    """A standard stream of Python; `spans` collects the parts of the log that it wrote."""

    def __init__(self, descriptor: int, spans: list[tuple[int, int]]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._spans = spans

    def write(self, text: bytes) -> int | None:  # type: ignore[override]
        size = super().write(text)
        end = os.lseek(self.fileno(), 0, os.SEEK_CUR)
        self._spans.append((end - (size or 0), end))
        return size


class Log:
    """A file in memory that takes both standard streams of this process and of its children."""

    def __init__(self) -> None:
        self._file = os.memfd_create("log")
        self._python_spans: list[tuple[int, int]] = []
        self._stages: list[tuple[int, str]] = []

    def take_streams(self) -> None:
        """Send what this process prints to the log from now on."""
        # The compiler writes to the descriptors themselves, past Python.
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)
        sys.stdout, sys.stderr = self._text_stream(1), self._text_stream(2)

    def _text_stream(self, descriptor: int) -> io.TextIOWrapper:
        raw = _PythonStream(descriptor, self._python_spans)
        # Unbuffered: text that is written late would stand behind what native code printed later.
        return io.TextIOWrapper(
            raw,
            encoding="utf-8",
            errors="backslashreplace",
            write_through=True,
        )

    def clear(self) -> None:
        """Empty the log for the next worker or request."""
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        self._python_spans.clear()
        self._stages.clear()

    def note_stage(self, name: str) -> None:
        """Note that everything printed from now on belongs to a stage."""
        self._stages.append((os.lseek(self._file, 0, os.SEEK_CUR), name))

    def text(self, scratch: str) -> str:
        """Return everything that was printed; the scratch folder is replaced by <scratch>."""
        return _show(self._content(), scratch)

    def native_text(self, scratch: str) -> str:
        """Return the text that native code printed since the first stage, without Python's own."""
        lines = [line for line in self._native().splitlines() if line]
        return _show(b"\n".join(lines), scratch)

    def error_stage(self) -> str | None:
        """Return the stage in which native code first printed an error, None without one.

        Python's own text is left out: a kernel may print the word at compile time. Text before the
        first stage is left out too: it comes from the import of the kernel's module.
        """
        # Most compiles print nothing, and no copy of the log is made for them.
        if not self._stages or os.fstat(self._file).st_size == self._stages[0][0]:
            return None
        error = _ERROR.search(self._native())
        if error is None:
            return None
        stage = self._stages[0][1]
        for position, name in self._stages:
            if position <= error.start():
                stage = name
        return stage

    def _native(self) -> bytes:
        """Return the log with line ends in place of the text of Python and the import."""
        content = bytearray(self._content())
        spans = list(self._python_spans)
        if self._stages:
            spans.append((0, self._stages[0][0]))
        for start, end in spans:
            content[start:end] = b"\n" * len(content[start:end])
        return bytes(content)

    def _content(self) -> bytes:
        return os.pread(self._file, os.fstat(self._file).st_size, 0)


def _show(text: bytes, scratch: str) -> str:
    return channel.trim_log(text.replace(scratch.encode(), b"<scratch>"))
