"""Files that are read for pins: their text and its encoding, and lines in those that are TOML."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flacheck.capabilities.gate.pins import file_line
from flacheck.config import toml
from flacheck.errors import UsageError

# PowerShell's `pip freeze > requirements.txt` writes UTF-16, which pip reads by its mark.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}

_KINDS: dict[type, str] = {dict: "table", list: "list"}


def encoding_of(content: bytes) -> tuple[str, bytes]:
    """A file's codec, and its byte order mark, which is no part of the text."""
    for mark, codec in _MARKS.items():
        if content.startswith(mark):
            return codec, mark
    return "utf-8", b""


@dataclass(frozen=True)
class PinFile:
    """A file, called `shown` in messages."""

    path: Path
    shown: str

    def where(self, line: int | None) -> str:
        """File and line, for a message."""
        return file_line(self.shown, line)

    def text(self) -> str:
        """All but the byte order mark, line ends as they are; UsageError if it cannot be read."""
        try:
            content = self.path.read_bytes()
        except OSError as error:
            why = f"cannot be read ({error.strerror}); check name and permissions"
            raise UsageError(f"{self.shown}: {why}") from None
        codec, mark = encoding_of(content)
        try:
            return content[len(mark) :].decode(codec)
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise UsageError(f"{self.where(line)}: is not UTF-8 text; save it as UTF-8") from None


@dataclass(frozen=True)
class TomlDocument:
    """A TOML file, parsed, with the text it came from."""

    file: PinFile
    text: str
    table: Mapping[str, Any]

    @staticmethod
    def read(file: PinFile) -> TomlDocument:
        """Raises UsageError with file and line for what is no TOML."""
        text = file.text()
        return TomlDocument(file, text, toml.loads(text, file.shown))

    @cached_property
    def lines(self) -> Mapping[toml.Path, int]:
        """The line of every string."""
        return toml.lines(self.text)

    def where(self, path: toml.Path) -> str:
        """File and line of a value, for a message."""
        return self.file.where(self.line(path))

    def line(self, path: toml.Path) -> int | None:
        """The line of the first string in a value, else of its key; None where neither is sure."""
        for inside, line in self.lines.items():
            if inside[: len(path)] == path:
                return line
        key = re.escape(next((key for key in reversed(path) if isinstance(key, str)), ""))
        # At the start of a line, or the last of the keys in a table's header.
        key_begins = rf"""^[ \t]*(?:\[[^\]\n]*\b)?["']?{key}["']?[ \t]*[=\]]"""
        starts = [match.start() for match in re.finditer(key_begins, self.text, re.MULTILINE)]
        # Tables may share a key, and then nothing says which of the lines is meant.
        if len(starts) != 1:
            return None
        return self.text.count("\n", 0, starts[0]) + 1

    def at(self, *keys: str, kind: type = dict) -> Any:
        """The table (or list) at a path, empty if absent; UsageError if it is something else."""
        value: Any = self.table
        for depth, key in enumerate(keys, 1):
            expected = kind if depth == len(keys) else dict
            value = value.get(key, expected())
            if not isinstance(value, expected):
                where, name = self.where(keys[:depth]), ".".join(keys[:depth])
                raise UsageError(f"{where}: {name} must be a {_KINDS[expected]}")
        return value
