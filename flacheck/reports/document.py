"""The values that a report consists of.

A builder (`reports/scan.py` and its neighbours) makes a `Report` of a command's result. A format
(one file in `reports/formats/`) turns the report into text; only a format escapes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from flacheck.model import Json
from flacheck.model.source_location import SourceLocation
from flacheck.model.text import visible
from flacheck.reports.display import Display as Display


class Tone(Enum):
    """The meaning of a piece of text; each format chooses its style."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    DOUBT = "doubt"
    BAD = "bad"


class Fit(Enum):
    """The treatment of a table that is wider than the display."""

    # Cells continue on the next line.
    FOLD = "fold"
    # The last columns go into another table.
    SPLIT = "split"
    # The lines stay whole for grep and awk.
    STAY = "stay"


@dataclass(frozen=True)
class Title:
    """The subject of a report, its result in one line, and its origin."""

    subject: str
    result: str
    tone: Tone
    about: str = ""


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Paragraph:
    """A sentence or a line; `aside` follows it in a faint tone."""

    text: str
    tone: Tone = Tone.PLAIN
    aside: str = ""


@dataclass(frozen=True)
class Item:
    """A line of a list, with faint lines below it; `code` is text for or from a program."""

    text: str
    tone: Tone = Tone.PLAIN
    notes: tuple[str, ...] = ()
    code: bool = False


@dataclass(frozen=True)
class Labelled:
    """Texts with a label each (cause, remedy): details, which a format may fold away.

    The texts of the labels in `unbroken` are links and commands, which are copied as one line.
    """

    texts: tuple[tuple[str, str], ...]
    unbroken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing:
    """Lines to copy, never broken."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Words:
    """A cell of a table; a line break begins a new line of the cell."""

    text: str
    tone: Tone = Tone.PLAIN
    code: bool = False


@dataclass(frozen=True)
class Table:
    """A table with a text in `headings` for each column; a row may end before the last column."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    fit: Fit = Fit.FOLD


# The parts that every format shows.
Part = Title | Heading | Paragraph | Item | Labelled | Listing | Table


@dataclass(frozen=True)
class Annotation:
    """A message for a review: error, warning or notice, at the places that it is about.

    `code` is a failure's code; `identity`, a failure's signature, is stable between runs.
    A format with one place for each message uses the first.
    """

    level: str
    title: str
    text: str
    places: tuple[SourceLocation, ...] = ()
    code: str | None = None
    identity: str | None = None


class CaseOutcome(Enum):
    """The outcome of a test case, in the terms of test runners."""

    PASSED = "passed"
    FAILED = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Case:
    """A kernel under one release on one GPU as a test case.

    `suite` names the release and the GPU, `group` the kernel's module; `text` is the reason of an
    outcome in one line, `details` are the lines below it.
    """

    suite: str
    group: str
    name: str
    outcome: CaseOutcome
    text: str = ""
    details: str = ""
    seconds: float = 0.0
    place: SourceLocation | None = None


@dataclass(frozen=True)
class Streamed:
    """A JSON object with a list too long for memory, and the fields before and after it."""

    before: Json
    name: str
    items: Iterable[Json]
    after: Json


@dataclass(frozen=True)
class Report:
    """Parts for people, a value for programs, annotations for reviews, cases for test runners.

    The value is `Streamed` or any JSON value; `pins` are requirements to copy, with a label each.
    All may be generators, so a report is rendered once.
    """

    parts: Iterable[Part]
    value: Any = None
    annotations: Iterable[Annotation] = ()
    cases: Iterable[Case] = ()
    pins: Iterable[tuple[str, str]] = ()


def make_visible(part: Any) -> Any:
    """Return a part, row, note or text without characters that a terminal or browser acts on."""
    if isinstance(part, str):
        return visible(part)
    if isinstance(part, tuple):
        return tuple(map(make_visible, part))
    if is_dataclass(part) and not isinstance(part, type):
        values = {}
        for each in fields(part):
            values[each.name] = make_visible(getattr(part, each.name))
        return replace(part, **values)
    return part


def row(*cells: str | Words) -> tuple[Words, ...]:
    """Return a row of a table; a string becomes a plain cell."""
    return tuple(Words(cell) if isinstance(cell, str) else cell for cell in cells)


def listing(rows: Sequence[Mapping[str, Any]], has_header: bool = True) -> Report:
    """Return a report with a line for each row; the names of the first row are the headings."""
    headings: list[str] = []
    if rows:
        headings = list(rows[0])
    if not has_header:
        headings = [""] * len(headings)
    texts = tuple(row(*map(str, each.values())) for each in rows)
    # Both people and tools such as grep read lists, so a row stays on one line.
    return Report([Table(tuple(headings), texts, Fit.STAY)], rows)
