"""Pins in requirements and constraints files, as pip reads them: includes, continuation lines,
hashes, markers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flacheck.errors import UsageError
from flacheck.gate.pinned import Pin, Scope
from flacheck.gate.sources import markers, requirement
from flacheck.gate.sources.text import read_text

_INCLUDE = re.compile(r"(?:-[rc]\s*|--(?:requirement|constraint)(?:\s+|=))(?P<file>.+)")
_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTIONS = re.compile(r"\s--?[A-Za-z].*$", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_ADDRESS = re.compile(
    r"\$\{|[\w+.-]+://|[./~]|[A-Za-z]:\\|\S+\.(?:whl|zip|tar\.gz|tgz|tar\.bz2)(?:$|[\s;#\[])|\S*/"
)
_EDITABLE = re.compile(r"(?:-e\s*|--editable(?:\s+|=))")
_FILE_OF = re.compile(
    r"(?:(?:^|/)(?=[^/]+\.(?:whl|tar\.gz|zip)\b)|[#&]egg=)(torch|triton)\b(?=-\d|[^-]|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Line:
    """One logical line: its text without comments and continuations, and where it stands in its
    file.
    """

    text: str
    number: int
    start: int
    end: int


def read(path: Path, shown: str, warn: Callable[[str], None]) -> list[Scope]:
    """All pins of the file and of what it includes hold together; UsageError with file and line for
    bad lines.
    """
    return [Scope(None, tuple(_pins(path, shown, warn, set())))]


def _pins(path: Path, shown: str, warn: Callable[[str], None], seen: set[Path]) -> Iterator[Pin]:
    # pip follows a circle of includes until it dies; once each is enough.
    if path.resolve() in seen:
        return
    seen.add(path.resolve())
    text = read_text(path, shown)
    for line in _logical(text):
        where = f"{shown}:{line.number}"
        included = _INCLUDE.fullmatch(line.text)
        if included:
            yield from _included(
                path, shown, included["file"].strip().strip("\"'"), where, warn, seen
            )
        else:
            found = _pin(text, line, shown, where, warn)
            yield from [found] if found else []


def _included(
    path: Path, shown: str, name: str, where: str, warn: Callable[[str], None], seen: set[Path]
) -> Iterator[Pin]:
    """The pins of an included file, whose name is relative to the one that includes it."""
    if "://" in name:
        warn(f"{where}: {name} is not fetched: give a copy of it as a file")
        return
    found = path.parent / name
    if not found.is_file():
        raise UsageError(
            f"{where}: {name} is included and is not there; its name is relative to {path.parent}"
        )
    yield from _pins(
        found, os.path.normpath(os.path.join(os.path.dirname(shown), name)), warn, seen
    )


def _pin(text: str, line: _Line, shown: str, where: str, warn: Callable[[str], None]) -> Pin | None:
    if _EDITABLE.match(line.text) or _ADDRESS.match(line.text):
        address, _, marker = line.text.partition(" ;")
        found = _FILE_OF.search(address) if markers.holds(marker.strip(), where) else None
        return (
            requirement.of_url(address, found[1].lower(), shown, line.number, warn)
            if found
            else None
        )
    if line.text.startswith("-"):
        return None
    plain = _OPTIONS.sub("", line.text)
    asked = requirement.parsed(plain, where)
    pin = requirement.pin(asked, plain, shown, line.number, warn, start=_start(text, line, plain))
    if pin and "--hash" in line.text:
        return Pin(
            pin.file, pin.line, pin.name, pin.specifier, obstacle="its hashes are of that release"
        )
    return pin


def _start(text: str, line: _Line, plain: str) -> int | None:
    """The offset of a requirement that stands in one piece; None when continuations or variables
    cut it.
    """
    found = text.find(plain, line.start, line.end)
    return found if found >= 0 else None


def _logical(text: str) -> Iterator[_Line]:
    """Lines put together at a backslash; comments and `${VARIABLES}` are resolved as pip does."""
    pending, number, start, offset = "", 0, 0, 0
    for count, physical in enumerate(text.splitlines(keepends=True), 1):
        if not pending:
            number, start = count, offset
        offset += len(physical)
        body = physical.rstrip("\r\n")
        comment = body.lstrip().startswith("#")
        if body.endswith("\\") and not comment:
            pending += body[:-1] + " "
            continue
        plain = _COMMENT.sub("", pending + ("" if comment else body)).strip()
        pending = ""
        if plain:
            yield _Line(_expanded(plain), number, start, offset)
    if pending.strip():
        yield _Line(_expanded(_COMMENT.sub("", pending).strip()), number, start, offset)


def _expanded(text: str) -> str:
    return _VARIABLE.sub(lambda name: os.environ.get(name[1], name[0]), text)
