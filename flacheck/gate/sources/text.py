"""The text of a file that holds pins, and its bytes again."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

from flacheck.errors import UsageError

# PowerShell's `pip freeze > requirements.txt` writes UTF-16, which pip reads by its mark.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@dataclass(frozen=True)
class Encoding:
    """How a file is written: its codec and its byte order mark, which is no part of the text."""

    codec: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def of(cls, held: bytes) -> Encoding:
        """By the mark; UTF-8 without one."""
        found = next((mark for mark in _MARKS if held.startswith(mark)), b"")
        return cls(_MARKS.get(found, "utf-8"), found)

    def decode(self, held: bytes) -> str:
        return held[len(self.mark) :].decode(self.codec)

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.codec)


def read_text(path: Path, shown: str) -> str:
    """The text with its own line ends, without a byte order mark; UsageError when it cannot be
    read.
    """
    try:
        held = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{shown}: cannot be read ({error.strerror}); check the name and its permissions"
        ) from None
    try:
        return Encoding.of(held).decode(held)
    except UnicodeDecodeError as error:
        line = held[: error.start].count(b"\n") + 1
        raise UsageError(f"{shown}:{line}: is not UTF-8 text; save it as UTF-8") from None
