"""Pins in requirements and constraints files, read as pip reads them."""

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck import files
from flacheck.capabilities.gate.pins import LabelledPin, Pin
from flacheck.capabilities.gate.sources import requirement
from flacheck.capabilities.gate.sources.pin_files import PinFile
from flacheck.errors import UsageError

_LOG = logging.getLogger(__name__)

_INCLUDE = re.compile(r"(?:-[rc]\s*|--(?:requirement|constraint)(?:\s+|=))(?P<file>.+)")
_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTIONS = re.compile(r"\s--?[A-Za-z].*$", re.DOTALL)
# pip expands variables in this form only, so that files need not hold passwords.
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
# Lines that pip reads as a path or an address and not as a name: a variable may hold either.
_ADDRESS = re.compile(
    r"\$\{|[\w+.-]+://|[./~]|[A-Za-z]:\\|\S+\.(?:whl|zip|tar\.gz|tgz|tar\.bz2)(?:$|[\s;#\[])|\S*/"
)
_EDITABLE = re.compile(r"(?:-e\s*|--editable(?:\s+|=))")
# An archive or source tree of torch or triton, but not of triton-windows or torch-geometric.
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
    """Return the pins of a file and of the files that it includes.

    Raises:
        UsageError: With file and line, if a line is invalid.
    """
    return [(None, pin) for pin in _pins(file)]


def _pins(file: PinFile) -> Iterator[Pin]:
    for own_file, text, line in _lines(file, set()):
        try:
            pin = _pin(own_file, text, line)
        except UsageError:
            # The message would quote a file that lies outside of the checkout.
            if not own_file.outside:
                raise
            where = own_file.where(line.number)
            raise UsageError(f"{where}: is not a requirement; write NAME>=VERSION") from None
        if pin:
            yield pin


def _lines(file: PinFile, read_files: set[Path]) -> Iterator[tuple[PinFile, str, _Line]]:
    """Yield the lines of a file and of the files that it includes, each with its file's text."""
    # Files may include each other, so each is read once.
    if file.path.resolve() in read_files:
        return
    read_files.add(file.path.resolve())
    text = file.text()
    for line in _logical_lines(text):
        include = _INCLUDE.fullmatch(line.text)
        if include:
            name = include["file"].strip().strip("\"'")
            yield from _lines_of_include(file, line.number, name, read_files)
        else:
            yield file, text, line


def _lines_of_include(
    file: PinFile, number: int, name: str, read_files: set[Path]
) -> Iterator[tuple[PinFile, str, _Line]]:
    """Yield the lines of an included file; its name is relative to the including file."""
    where, folder = file.where(number), file.path.parent
    if "://" in name:
        _LOG.warning(f"{where}: {name} is not fetched: give a copy of it as a file")
        return
    # os.path.isfile returns False for invalid names, for which Path.is_file may raise.
    if not os.path.isfile(folder / name):
        raise UsageError(
            f"{where}: {name} is included and is not there; its name is relative to {folder}"
        )
    display_name = os.path.normpath(os.path.join(os.path.dirname(file.display_name), name))
    inside = files.lies_inside(folder / name, files.checkout_of(file.path))
    outside = file.outside or not inside
    included = PinFile(folder / name, display_name, outside, file.names)
    yield from _lines(included, read_files)


def _pin(file: PinFile, text: str, line: _Line) -> Pin | None:
    """Return the pin of a line, if it has one; `text` is the whole file."""
    where = file.where(line.number)
    if _EDITABLE.match(line.text) or _ADDRESS.match(line.text):
        address, _, marker = line.text.partition(" ;")
        name = _NAME_IN_ADDRESS.search(address)
        if requirement.holds(marker.strip(), where) and name and name[1].lower() in file.names:
            return requirement.of_url(address, name[1].lower(), file, line.number)
        return None
    if line.text.startswith("-"):
        return None
    plain = _OPTIONS.sub("", line.text)
    # A requirement with continuations or variables is not in the file as one piece.
    start: int | None = text.find(plain, line.start, line.end)
    if start == -1:
        start = None
    parsed_requirement = requirement.parse(plain, where)
    pin = requirement.pin(parsed_requirement, plain, file, line.number, start=start)
    if pin and "--hash" in line.text:
        obstacle = "its hashes are of that release"
        return replace(pin, span=None, original_text="", obstacle=obstacle)
    return pin


def _logical_lines(text: str) -> Iterator[_Line]:
    """Yield lines joined at backslashes, without comments and with `${VARIABLES}` expanded."""
    pending, number, start, end = "", 0, 0, 0
    # The empty last line ends a continuation at the end of the file.
    for count, physical in enumerate([*text.splitlines(keepends=True), ""], 1):
        if not pending:
            number, start = count, end
        end += len(physical)
        body = physical.rstrip("\r\n")
        # A comment is never continued, and it ends a continuation.
        if body.lstrip().startswith("#"):
            body = ""
        elif body.endswith("\\"):
            pending += body[:-1] + " "
            continue
        logical = _COMMENT.sub("", pending + body).strip()
        pending = ""
        if logical:
            with_values = _VARIABLE.sub(lambda name: os.environ.get(name[1], name[0]), logical)
            yield _Line(with_values, number, start, end)
