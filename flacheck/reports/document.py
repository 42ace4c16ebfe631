"""What a command has to say, as values.

A builder (`reports/scan.py` and its neighbours) makes a `Report` of what a command found. A format
(one file in `reports/formats/`) turns the report into text; only a format escapes anything.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from flacheck.model import Json
from flacheck.model.text import visible


class Tone(Enum):
    """How a piece of text is meant; each format says how it shows that."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    DOUBT = "doubt"
    BAD = "bad"


class Fit(Enum):
    """What becomes of a table that is wider than the display."""

    # Its cells go on below.
    FOLD = "fold"
    # Its last columns go into another table.
    SPLIT = "split"
    # Nothing: it is read by grep and awk.
    STAY = "stay"


@dataclass(frozen=True)
class Title:
    """What a report is about, what came of it in one line, and where that is from."""

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
    """A line of a list, with faint lines below it. `code` is what a program reads or wrote."""

    text: str
    tone: Tone = Tone.PLAIN
    notes: tuple[str, ...] = ()
    code: bool = False


@dataclass(frozen=True)
class Labelled:
    """Texts behind a word each (cause, remedy): details, which a format may fold away."""

    texts: tuple[tuple[str, str], ...]


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
    """`headings` has a text for each column; a row may end before the last column."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    fit: Fit = Fit.FOLD


Part = Title | Heading | Paragraph | Item | Labelled | Listing | Table


@dataclass(frozen=True)
class Annotation:
    """A message of a workflow: error, warning or notice; shown at its line (from 1) of its file."""

    level: str
    title: str
    text: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Streamed:
    """A JSON object with a list too long for memory, and the fields before and after the list."""

    before: Json
    name: str
    items: Iterable[Json]
    after: Json


@dataclass(frozen=True)
class Report:
    """Parts for people, a value for programs (`Streamed`, or whatever JSON can hold), annotations
    for a workflow on GitHub. All may be generators, so a report is rendered once."""

    parts: Iterable[Part]
    value: Any = None
    annotations: Iterable[Annotation] = ()


@dataclass(frozen=True)
class Display:
    """How wide a report for people may be, in columns, and whether it may be coloured."""

    width: int = 100
    color: bool = False

    @staticmethod
    def of_stdout() -> Display:
        """What stdout offers; `COLUMNS` and `NO_COLOR` hold."""
        width = shutil.get_terminal_size((100, 24)).columns
        # None where the shell closed it.
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        return Display(width, is_terminal and not os.environ.get("NO_COLOR"))


def make_visible(part: Any) -> Any:
    """The part, row, note or text with nothing in it that a terminal or browser would act on."""
    if isinstance(part, str):
        return visible(part)
    if isinstance(part, tuple):
        return tuple(map(make_visible, part))
    if is_dataclass(part) and not isinstance(part, type):
        return replace(
            part, **{each.name: make_visible(getattr(part, each.name)) for each in fields(part)}
        )
    return part


def row(*cells: str | Words) -> tuple[Words, ...]:
    """A row of a table, plain where a cell is just text."""
    return tuple(Words(cell) if isinstance(cell, str) else cell for cell in cells)


def listing(rows: Sequence[Mapping[str, Any]], has_header: bool = True) -> Report:
    """A line a row; all rows have the names of the first one, which are the headings."""
    headings = [name for each in rows[:1] for name in each]
    if not has_header:
        headings = [""] * len(headings)
    texts = tuple(row(*map(str, each.values())) for each in rows)
    # Lists are read by grep and awk as much as by people: a line stays a line.
    return Report([Table(tuple(headings), texts, Fit.STAY)], rows)
