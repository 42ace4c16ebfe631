"""TOML with the place of every string in it: a message can name a line, and an edit leaves the rest as it was."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Path = tuple[str | int, ...]

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\#[^\n]*)
      | (?P<newline>\n)
      | (?P<string>\"{3}(?:\\.|[^\\])*?\"{3,5}(?!\") | '{3}.*?'{3,5}(?!') | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
      | (?P<mark>[\[\]{}=,.])
      | (?P<word>[^\s\[\]{}=,."'\#]+)""",
    re.VERBOSE | re.DOTALL,
)
_AT_LINE = re.compile(r"\s*\(?at line (\d+), column (\d+)\)?")


@dataclass(frozen=True)
class Place:
    """Where a string stands: its line, from 1, and the offsets of what is between its quotes."""

    line: int
    start: int
    end: int


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    line: int


def loads(text: str, file: str) -> dict[str, Any]:
    """The document; a UsageError with file and line when it is none."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise UsageError(f"{file}:{line}: not valid TOML: {_AT_LINE.sub('', str(error))}") from None
    return document


def places(text: str) -> Mapping[Path, Place]:
    """The place of every string value of a document that `loads` accepts, by its path of keys and indices."""
    return _Walk(text).document()


class _Walk:
    """One pass over the tokens. The text is known to be valid, so nothing here is checked."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._token: _Token | None = None
        self._found: dict[Path, Place] = {}
        self._tables: dict[Path, int] = {}
        self._advance()

    def document(self) -> Mapping[Path, Place]:
        table: Path = ()
        while self._token is not None:
            if self._token.kind == "newline":
                self._advance()
            elif self._at("["):
                table = self._header()
            else:
                self._assignment(table)
        return self._found

    def _header(self) -> Path:
        self._advance()
        several = self._at("[")
        if several:
            self._advance()
        path: Path = ()
        for key in self._keys():
            path = self._last(path)
            path += (key,)
        while self._at("]"):
            self._advance()
        if several:
            self._tables[path] = self._tables.get(path, -1) + 1
        return self._last(path)

    def _last(self, path: Path) -> Path:
        """The newest element where the path names an array of tables."""
        return (*path, self._tables[path]) if path in self._tables else path

    def _assignment(self, table: Path) -> None:
        path = (*table, *self._keys())
        self._advance()
        self._value(path)

    def _keys(self) -> list[str]:
        keys = []
        while self._token is not None and (self._token.kind in ("word", "string") or self._at(".")):
            if not self._at("."):
                keys.append(_plain(self._token))
            self._advance()
        return keys

    def _value(self, path: Path) -> None:
        if self._at("["):
            self._many("]", lambda index: self._value((*path, index)))
        elif self._at("{"):
            self._many("}", lambda _: self._assignment(path))
        elif self._token is not None and self._token.kind == "string":
            quotes = 3 if self._token.text[:3] in ('"""', "'''") else 1
            start = self._token.start + quotes
            self._found[path] = Place(self._token.line, start, self._token.start + len(self._token.text) - quotes)
            self._advance()
        else:
            while self._token is not None and (self._token.kind == "word" or self._at(".")):
                self._advance()

    def _many(self, end: str, one: Callable[[int], None]) -> None:
        self._advance()
        index = 0
        while self._token is not None and not self._at(end):
            if self._token.kind == "newline" or self._at(","):
                self._advance()
            else:
                one(index)
                index += 1
        self._advance()

    def _at(self, mark: str) -> bool:
        return self._token is not None and self._token.kind == "mark" and self._token.text == mark

    def _advance(self) -> None:
        self._token = next(self._tokens, None)


def _plain(key: _Token) -> str:
    return str(next(iter(tomllib.loads(f"{key.text} = 0")))) if key.kind == "string" else key.text


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "blank"
        if kind != "blank":
            yield _Token(kind, match[0], match.start(), line)
        line += match[0].count("\n")
