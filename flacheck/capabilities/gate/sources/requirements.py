"""Pins in requirements and constraints files, as pip reads them."""

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.capabilities.gate.pins import LabelledPin, Pin
from flacheck.capabilities.gate.sources import requirement
from flacheck.capabilities.gate.sources.pin_files import PinFile
from flacheck.errors import UsageError

_LOG = logging.getLogger(__name__)

_INCLUDE = re.compile(r"(?:-[rc]\s*|--(?:requirement|constraint)(?:\s+|=))(?P<file>.+)")
_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTIONS = re.compile(r"\s--?[A-Za-z].*$", re.DOTALL)
# pip expands no other form, so that a password stays out of the file and all else is literal.
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
# What pip takes for a path or an address and not for a name: a variable may hold either.
_ADDRESS = re.compile(
    r"\$\{|[\w+.-]+://|[./~]|[A-Za-z]:\\|\S+\.(?:whl|zip|tar\.gz|tgz|tar\.bz2)(?:$|[\s;#\[])|\S*/"
)
_EDITABLE = re.compile(r"(?:-e\s*|--editable(?:\s+|=))")
# An archive of torch or triton, or a source tree called so; not triton-windows or torch-geometric.
_NAME_IN_ADDRESS = re.compile(
    r"(?:(?:^|/)(?=[^/]+\.(?:whl|tar\.gz|zip)\b)|[#&]egg=)(torch|triton)\b(?=-\d|[^-]|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Line:
    """A logical line without comments and continuations; `start` and `end` are offsets."""

    text: str
    number: int
    start: int
    end: int


def read(file: PinFile) -> list[LabelledPin]:
    """The pins of the file and of what it includes; UsageError with file and line for bad lines."""
    return [(None, pin) for pin in _pins(file, set())]


def _pins(file: PinFile, seen: set[Path]) -> Iterator[Pin]:
    # pip follows a circle of includes until it dies; once each is enough.
    if file.path.resolve() in seen:
        return
    seen.add(file.path.resolve())
    text = file.text()
    for line in _logical_lines(text):
        include = _INCLUDE.fullmatch(line.text)
        if include:
            name = include["file"].strip().strip("\"'")
            yield from _included(file, line.number, name, seen)
            continue
        pin = _pin(file, text, line)
        if pin:
            yield pin


def _included(file: PinFile, number: int, name: str, seen: set[Path]) -> Iterator[Pin]:
    """The pins of an included file, whose name is relative to the one that includes it."""
    where, folder = file.where(number), file.path.parent
    if "://" in name:
        _LOG.warning(f"{where}: {name} is not fetched: give a copy of it as a file")
        return
    # os.path asks without an error also for names that no file system takes.
    if not os.path.isfile(folder / name):
        raise UsageError(
            f"{where}: {name} is included and is not there; its name is relative to {folder}"
        )
    shown = os.path.normpath(os.path.join(os.path.dirname(file.shown), name))
    yield from _pins(PinFile(folder / name, shown), seen)


def _pin(file: PinFile, text: str, line: _Line) -> Pin | None:
    """The pin of a line, if it is one; `text` is all of the file."""
    where = file.where(line.number)
    if _EDITABLE.match(line.text) or _ADDRESS.match(line.text):
        address, _, marker = line.text.partition(" ;")
        name = _NAME_IN_ADDRESS.search(address)
        if requirement.holds(marker.strip(), where) and name:
            return requirement.of_url(address, name[1].lower(), file, line.number)
        return None
    if line.text.startswith("-"):
        return None
    plain = _OPTIONS.sub("", line.text)
    # Continuations or variables may cut a requirement into pieces, and then it is not in the file.
    start: int | None = text.find(plain, line.start, line.end)
    if start == -1:
        start = None
    parsed = requirement.parsed(plain, where)
    pin = requirement.pin(parsed, plain, file, line.number, start=start)
    if pin and "--hash" in line.text:
        return replace(pin, span=None, original_text="", obstacle="its hashes are of that release")
    return pin


def _logical_lines(text: str) -> Iterator[_Line]:
    """Lines put together at a backslash; comments and `${VARIABLES}` are resolved as pip does."""
    pending, number, start, end = "", 0, 0, 0
    # The empty last line ends a continuation at the end of the file.
    for count, physical in enumerate([*text.splitlines(keepends=True), ""], 1):
        if not pending:
            number, start = count, end
        end += len(physical)
        body = physical.rstrip("\r\n")
        # A comment is not continued, and ends what was.
        if body.lstrip().startswith("#"):
            body = ""
        elif body.endswith("\\"):
            pending += body[:-1] + " "
            continue
        logical = _COMMENT.sub("", pending + body).strip()
        pending = ""
        if logical:
            expanded = _VARIABLE.sub(lambda name: os.environ.get(name[1], name[0]), logical)
            yield _Line(expanded, number, start, end)
