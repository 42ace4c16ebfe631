"""The text of files with pins, and the lines of values in TOML files."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flacheck import files
from flacheck.capabilities.gate.pins import NAMES, file_line
from flacheck.errors import UsageError
from flacheck.tables.settings import toml

# PowerShell's `pip freeze > requirements.txt` writes UTF-16; pip detects it by its mark.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}

_KINDS: dict[type, str] = {dict: "table", list: "list"}


def encoding_of(content: bytes) -> tuple[str, bytes]:
    """Return a file's codec, and its byte order mark, which is not part of the text."""
    for mark, codec in _MARKS.items():
        if content.startswith(mark):
            return codec, mark
    return "utf-8", b""


@dataclass(frozen=True)
class PinFile:
    """A file with pins, called `display_name` in messages.

    Readers return the pins of the distributions `names`. Messages do not quote a file that is
    `outside` of the checkout whose file includes it.
    """

    path: Path
    display_name: str
    outside: bool = False
    names: Collection[str] = NAMES

    def where(self, line: int | None) -> str:
        """Return file and line for a message."""
        return file_line(self.display_name, line)

    def text(self) -> str:
        """Return the text without the byte order mark, its line ends unchanged.

        Raises:
            UsageError: If the file cannot be read or decoded.
        """
        try:
            content = files.read_bytes(self.path)
        except OSError as error:
            why = f"cannot be read ({error.strerror}); check name and permissions"
            raise UsageError(f"{self.display_name}: {why}") from None
        codec, mark = encoding_of(content)
        try:
            return content[len(mark) :].decode(codec)
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise UsageError(f"{self.where(line)}: is not UTF-8 text; save it as UTF-8") from None


@dataclass(frozen=True)
class TomlDocument:
    """A parsed TOML file with its text."""

    file: PinFile
    text: str
    table: Mapping[str, Any]

    @staticmethod
    def read(file: PinFile) -> TomlDocument:
        """Parse a file.

        Raises:
            UsageError: With file and line, if the file is not valid TOML.
        """
        text = file.text()
        return TomlDocument(file, text, toml.loads(text, file.display_name))

    @cached_property
    def lines(self) -> Mapping[toml.Path, int]:
        """The line of every string, by its path."""
        return toml.lines(self.text)

    def where(self, path: toml.Path) -> str:
        """Return file and line of a value for a message."""
        return self.file.where(self.line(path))

    def line(self, path: toml.Path) -> int | None:
        """Return the line of a value's first string, else of its key; None if that is ambiguous."""
        for inside, line in self.lines.items():
            if inside[: len(path)] == path:
                return line
        keys = [key for key in path if isinstance(key, str)]
        key = re.escape(keys[-1] if keys else "")
        # The key begins a line, or ends the header of a table.
        key_begins = rf"""^[ \t]*(?:\[[^\]\n]*\b)?["']?{key}["']?[ \t]*[=\]]"""
        starts = [match.start() for match in re.finditer(key_begins, self.text, re.MULTILINE)]
        # Several tables may have this key.
        if len(starts) != 1:
            return None
        return self.text.count("\n", 0, starts[0]) + 1

    def at(self, *keys: str, kind: type = dict) -> Any:
        """Return the table, or another `kind`, at a path; empty if absent.

        Raises:
            UsageError: If the value is of another kind.
        """
        value: Any = self.table
        for depth, key in enumerate(keys, 1):
            value_kind: type = dict
            if depth == len(keys):
                value_kind = kind
            value = value.get(key, value_kind())
            if not isinstance(value, value_kind):
                where, name = self.where(keys[:depth]), ".".join(keys[:depth])
                raise UsageError(f"{where}: {name} must be a {_KINDS[value_kind]}")
        return value
