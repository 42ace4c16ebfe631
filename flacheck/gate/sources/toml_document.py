"""A TOML file that holds pins: its tables, and the lines of what stands in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flacheck.config import toml
from flacheck.errors import UsageError
from flacheck.gate.sources.pin_file import PinFile


@dataclass(frozen=True)
class TomlDocument:
    """A parsed file with the text it came from."""

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
        return self._line_of_key(path)

    def _line_of_key(self, path: toml.Path) -> int | None:
        """The line of the last key, when no other line begins with the like."""
        keys = [key for key in path if isinstance(key, str)]
        if not keys:
            return None
        # At the start of a line, or the last of the keys in a table's header.
        key_begins = rf"""^[ \t]*(?:\[[^\]\n]*\b)?["']?{re.escape(keys[-1])}["']?[ \t]*[=\]]"""
        starts = [match.start() for match in re.finditer(key_begins, self.text, re.MULTILINE)]
        if len(starts) != 1:
            return None
        return self.text.count("\n", 0, starts[0]) + 1

    def at(self, *keys: str, kind: type = dict) -> Any:
        """The table (or list) at a path, empty when it is absent; a UsageError when it is something
        else.
        """
        value: Any = self.table
        for depth, key in enumerate(keys, 1):
            expected = kind if depth == len(keys) else dict
            value = value.get(key, expected())
            if not isinstance(value, expected):
                name = "a list" if expected is list else "a table"
                raise UsageError(
                    f"{self.where(keys[:depth])}: {'.'.join(keys[:depth])} must be {name}"
                )
        return value
