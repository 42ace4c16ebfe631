"""TOML: lines of strings, replacement of strings, and errors with lines."""

from __future__ import annotations

import pytest

from flacheck.errors import UsageError
from flacheck.tables.settings import toml
from tests.paths import ROOT

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


@pytest.mark.parametrize("text", [TRICKY, (ROOT / "pyproject.toml").read_text(), ""])
def test_every_string_has_its_line(text: str) -> None:
    """Each string has its line, other values have none."""
    lines, rows = toml.lines(text), text.split("\n")
    there = toml.strings(text, "x.toml")
    assert lines.keys() == there.keys()
    plain = {
        path: value for path, value in there.items() if "\\" not in value and "\n" not in value
    }
    assert [path for path, value in plain.items() if value not in rows[lines[path] - 1]] == []


def test_lines_count_whatever_ends_them() -> None:
    """Comments, long strings and CRLF count as lines."""
    lines = toml.lines(TRICKY.replace("\n", "\r\n"))
    assert lines["table", "sub.table", "list", 1] == 17
    assert lines["many", 1, "inner", 0, "name"] == 31
    assert toml.lines('"a.b"."c" = "x"\n["d"]\n"e" = { "f" = "y" }\n') == {
        ("a.b", "c"): 1,
        ("d", "e", "f"): 3,
    }


def test_an_array_that_looks_like_a_header_has_no_lines() -> None:
    """An array that looks like a header has no lines, and later lines are right."""
    text = 'a = [\n  ["x"]\n]\nb = [\n  ["x", "y"],\n]\n'
    assert toml.lines(text) == {("b", 0, 0): 5, ("b", 0, 1): 5}


WITH_STRINGS = """# top
[a]   # of a
 x = 'lit "eral"'\t# stays
y\t=\t{ z = "one" , "q.q" = [ 1 , 'two', ] }
long = \"""one\"""
[b]
[a.c]
esc = "\\u0041 tab\\t"
[[d]]
[[d]]
e = "last"
"""


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_strings_are_replaced_and_nothing_else(ends: str) -> None:
    """Quotes, comments, blanks and line ends stay."""
    text = WITH_STRINGS.replace("\n", ends)
    new_texts: dict[toml.Path, str] = {
        ("a", "x"): 'new "x"',
        ("a", "y", "z"): "1",
        ("a", "y", "q.q", 1): "2",
        ("a", "long"): "three",
        ("a", "c", "esc"): "B",
        ("d", 1, "e"): "ü\\",
    }
    new_text = text
    for old, new in (
        ('lit "eral"', 'new "x"'),
        ('z = "one"', 'z = "1"'),
        ("'two'", "'2'"),
        ('"""one', '"""three'),
        ("\\u0041 tab\\t", "B"),
        ('"last"', '"ü\\\\"'),
    ):
        new_text = new_text.replace(old, new, 1)
    assert toml.replace_strings(text, new_texts, "x.toml") == new_text


def test_what_is_not_there_cannot_be_replaced() -> None:
    """A missing key, item or table is an error."""
    for path in (("a", "b"), ("a", 1), ("c", "d")):
        with pytest.raises(UsageError, match=r"^x\.toml: cannot be edited \("):
            toml.replace_strings('a = ["x"]\n', {path: "new"}, "x.toml")


def test_an_editor_that_changes_more_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of anything else is an error."""
    import tomlkit

    for text in ('a = "y"\nb = 2 # c\n', 'a = "y"\nb = 1\n', 'a = "y"\nb = 1 # c\n\n'):
        monkeypatch.setattr(tomlkit, "dumps", lambda document, made=text: made)
        with pytest.raises(UsageError, match="without a change of its layout"):
            toml.replace_strings('a = "x"\nb = 1 # c\n', {("a",): "y"}, "x.toml")


def test_what_is_nested_without_end_is_an_error() -> None:
    """Deep nesting is an error."""
    with pytest.raises(UsageError, match="nested too deeply"):
        toml.loads(f"a = {'[' * 3000}{']' * 3000}\n", "x.toml")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\n[b\n", 2), ("a = [\n'x',\n", 3), ("\n\na = 1\na = 2\n", 4), ('a = "x\ny"', 1)],
)
def test_what_is_no_toml_is_an_error_with_its_line(text: str, line: int) -> None:
    """Invalid TOML is an error with file and line."""
    with pytest.raises(UsageError, match=rf"^x\.toml:{line}: not valid TOML: ") as caught:
        toml.loads(text, "x.toml")
    assert "at line" not in str(caught.value)


def test_a_key_of_a_thousand_parts_is_nested_too_deeply() -> None:
    """A key of thousands of parts is an error."""
    with pytest.raises(UsageError, match="nested too deeply"):
        toml.loads(".".join(["a"] * 5_000) + " = 1", "p.toml")


def test_a_number_of_thousands_of_digits_is_an_error() -> None:
    """A number of thousands of digits is an error."""
    with pytest.raises(UsageError, match=r"p\.toml: not valid TOML"):
        toml.loads("a = " + "9" * 5_000, "p.toml")
