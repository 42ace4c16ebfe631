"""A file that is read for pins: its text, how it is written, its name in messages."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flacheck.errors import UsageError
from flacheck.gate.pinned import file_line

# PowerShell's `pip freeze > requirements.txt` writes UTF-16, which pip reads by its mark.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def encoding_of(content: bytes) -> tuple[str, bytes]:
    """How a file is written: its codec, and its byte order mark, which is no part of the text."""
    for mark, codec in _MARKS.items():
        if content.startswith(mark):
            return codec, mark
    return "utf-8", b""


@dataclass(frozen=True)
class PinFile:
    """A file with its name as messages `show` it; `warn` is told of what is assumed or left out."""

    path: Path
    shown: str
    warn: Callable[[str], None]

    def where(self, line: int | None) -> str:
        """File and line, for a message."""
        return file_line(self.shown, line)

    def text(self) -> str:
        """The text with its own line ends, without a byte order mark; UsageError when it cannot be
        read.
        """
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise UsageError(
                f"{self.shown}: cannot be read ({error.strerror}); check the name and its"
                " permissions"
            ) from None
        codec, mark = encoding_of(content)
        try:
            return content[len(mark) :].decode(codec)
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise UsageError(f"{self.where(line)}: is not UTF-8 text; save it as UTF-8") from None
