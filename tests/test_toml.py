"""TOML with places: every string is found where it stands, and errors name their line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flacheck import toml
from flacheck.errors import UsageError

TRICKY = '''# [not."a table"]
title = "x # no comment" # a = "comment"
dotted . "quo.ted" . 'sin gle' = "deep"
when = 1979-05-27T07:32:00Z
number = 1_000.5e3
numbers = [ 1.5, [ "in", 'ner' ], true ]
long = """
first "quoted"
last"""
raw = \'\'\'c:\\new [x] "y" \'\'\'
empty = ""
inline = { a = "one", b = { c = [ { d = "two" }, ] } }

[ table . "sub.table" ]
list = [
  "a", # one "b"
  'c',

  "d" ]
[[many]]
name = "first"
[[many.inner]]
name = "first of first"
[[many.inner]]
name = "second of first"
[many.plain]
key = "of first"
[[many]]
name = "second"
[[many.inner]]
name = "first of second"
'''


def strings(value: Any, path: toml.Path = ()) -> Iterator[tuple[toml.Path, str]]:
    """Every string of a document with its path."""
    if isinstance(value, str):
        yield path, value
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from strings(entry, (*path, key))


@pytest.mark.parametrize("text", [TRICKY, (Path(__file__).parent.parent / "pyproject.toml").read_text(), ""])
def test_every_string_has_its_place(text: str) -> None:
    """The same paths as the parser's, and between the quotes the same text, but for escapes."""
    found = {path: text[place.start : place.end] for path, place in toml.places(text).items()}
    wanted = dict(strings(toml.loads(text, "x.toml")))
    assert found.keys() == wanted.keys()
    assert {path: said for path, said in found.items() if "\\" not in said and "\n" not in said} == {
        path: value for path, value in wanted.items() if "\\" not in value and "\n" not in value
    }


def test_a_place_has_its_line() -> None:
    """Comments, long strings and CRLF before it count."""
    places = toml.places(TRICKY.replace("\n", "\r\n"))
    assert places["table", "sub.table", "list", 1].line == 17
    assert places["many", 1, "inner", 0, "name"].line == 31


@pytest.mark.parametrize(
    ("text", "line"), [("a = 1\n[b\n", 2), ("a = [\n'x',\n", 3), ("\n\na = 1\na = 2\n", 4), ('a = "x\ny"', 1)]
)
def test_what_is_no_toml_is_an_error_with_its_line(text: str, line: int) -> None:
    """As compilers write it."""
    with pytest.raises(UsageError, match=rf"^x\.toml:{line}: not valid TOML: ") as caught:
        toml.loads(text, "x.toml")
    assert "at line" not in str(caught.value)
