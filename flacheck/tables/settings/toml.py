"""TOML with the line of every string, and a way to replace some strings and nothing else."""

import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flacheck.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Path = tuple[str | int, ...]
# Levels of nested tables and lists, beyond those of any project's file.
_DEEPEST = 100

# A bare key, or one in quotes.
_KEY = r"""(?:[A-Za-z0-9_-]+ | "(?:\\.|[^"\\\n])*" | '[^'\n]*')"""
# Tokens that resemble strings come first: a comment, a table's header with quoted keys. A string
# followed by a dot or an equals sign is a key.
_TOKEN = re.compile(
    rf"""\#[^\n]*
      | ^[ \t]*\[{{1,2}}[ \t]* {_KEY} (?:[ \t]*\.[ \t]*{_KEY})* [ \t]*\]{{1,2}}[ \t]*(?=\#|\r?$)
      | (?P<string>\"{{3}}(?:\\.|[^\\])*?\"{{3,5}}(?!\") | '{{3}}.*?'{{3,5}}(?!')
          | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
        (?P<of_key>[ \t]*[.=])?""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
# The end of tomllib's messages; flacheck puts the line first, as compilers do.
_AT_LINE = re.compile(r"\s*\(?at line (\d+), column (\d+)\)?")


def loads(text: str, file: str) -> dict[str, Any]:
    """Return the document.

    Raises UsageError with file and line if it is not valid TOML.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at_line = _AT_LINE.search(str(error))
        # tomllib reports "at end of document" for an unclosed bracket.
        line = int(at_line[1]) if at_line else text.count("\n") + 1
        raise UsageError(f"{file}:{line}: not valid TOML: {_AT_LINE.sub('', str(error))}") from None
    except RecursionError:
        raise _too_deep(file) from None
    except ValueError as error:
        # A number with thousands of digits, which Python rejects; tomllib reports no line.
        raise UsageError(f"{file}: not valid TOML: {error}") from None
    if _depth(document) > _DEEPEST:
        raise _too_deep(file)
    return document


def _too_deep(file: str) -> UsageError:
    return UsageError(f"{file}: not valid TOML: it is nested too deeply")


def _depth(document: Any) -> int:
    """Return the number of nested levels of tables and lists.

    Dotted keys nest without the parser's recursion.
    """
    depth, level = 0, [document]
    while level and depth <= _DEEPEST:
        depth += 1
        deeper: list[Any] = []
        for value in level:
            deeper += _entries(value)
        level = deeper
    return depth


def _entries(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list):
        return value
    return ()


def lines(text: str) -> Mapping[Path, int]:
    """Return the line, from 1, of every string of a valid document, by its path.

    A path consists of keys and indices. The text is parsed once more with each string's line
    written in its place. An array in an array that stands on a line of its own looks like a table's
    header: its strings are left out.
    """
    ends = [end.start() for end in re.finditer("\n", text)]

    def number_string(token: re.Match[str]) -> str:
        if token["string"] is None or token["of_key"] is not None:
            return token[0]
        return f'"{bisect_left(ends, token.start()) + 1}"'

    numbers = _strings(tomllib.loads(_TOKEN.sub(number_string, text)))
    return {path: int(line) for path, line in numbers if line.isdecimal()}


def line_of(text: str, path: Path) -> int:
    """Return the line, from 1, on which the value at a path begins in a valid document.

    The line follows the longest beginning of the text that is a valid document without the value.
    Each head is parsed, so this is for messages only.
    """
    heads = text.split("\n")
    begins = 1
    for count in range(1, len(heads) + 1):
        try:
            document = tomllib.loads("\n".join(heads[:count]))
        except tomllib.TOMLDecodeError:
            # In the middle of a value of several lines.
            continue
        try:
            _holder(document, path)[path[-1]]
        except LookupError:
            begins = count + 1
        else:
            return begins
    return begins


def strings(text: str, file: str) -> Mapping[Path, str]:
    """Return every string value by its path.

    Raises UsageError as `loads` does.
    """
    return dict(_strings(loads(text, file)))


def replace_strings(text: str, values: Mapping[Path, str], file: str) -> str:
    """Return the document with other strings at these paths and all else unchanged.

    Raises UsageError if a string is missing in the text, or if the edit would change more.
    """
    # Imported here because only edits need it, and it is slow to import.
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        for path, value in values.items():
            holder = _holder(document, path)
            quotes = holder[path[-1]].as_string()[:3]
            holder[path[-1]] = tomlkit.string(
                value, literal=quotes[0] == "'", multiline=quotes in ('"""', "'''")
            )
        new_text = tomlkit.dumps(document)
    except (TOMLKitError, LookupError, TypeError) as error:
        raise UsageError(f"{file}: cannot be edited ({error}); write the change by hand") from None
    if not _differs_only(text, new_text, values):
        why = "cannot be edited without a change of its layout; write the change by hand"
        raise UsageError(f"{file}: {why}")
    return new_text


def _strings(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    entries: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, entry in entries:
        yield from _strings(entry, (*path, key))


def _holder(document: Any, path: Path) -> Any:
    """Return the table or list that holds the last key of a path."""
    for key in path[:-1]:
        document = document[key]
    return document


def _differs_only(text: str, new_text: str, values: Mapping[Path, str]) -> bool:
    """Return True if `new_text` is the text with these values, line for line."""
    expected_document = tomllib.loads(text)
    for path, value in values.items():
        _holder(expected_document, path)[path[-1]] = value
    if tomllib.loads(new_text) != expected_document:
        return False
    line_of = lines(text)
    edited_lines = {line_of.get(path) for path in values}
    before, after = text.split("\n"), new_text.split("\n")
    if len(before) != len(after):
        return False
    for number, (old, new) in enumerate(zip(before, after), 1):
        if old != new and number not in edited_lines:
            return False
    return True
