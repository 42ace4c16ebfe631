"""The parts of a report for a terminal, or for a file that is read as text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Columns
from rich.text import Text

from flacheck.reports import document
from flacheck.reports.document import Display, Part, Report, Tone, Words

_STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.FAINT: "dim",
    Tone.GOOD: "green",
    Tone.DOUBT: "yellow",
    Tone.BAD: "bold red",
}
# Blanks between two columns.
_GAP = 2
# As wide as no line is: rich breaks whatever is wider than its console.
_ENDLESS = 100_000


def render(report: Report, display: Display) -> Iterator[str]:
    """Part after part, each as soon as it is there."""
    before: Part | None = None
    for part in report.parts:
        if before is not None and _stands_apart(before, part):
            yield "\n"
        yield _text(part, display)
        before = part


def _stands_apart(before: Part, part: Part) -> bool:
    """Whether an empty line comes between two parts: sections begin after one, and blocks of lines
    have one on both sides, but for what belongs to the line above.
    """
    blocks = (document.Table, document.Listing)
    if isinstance(part, document.Heading):
        return True
    if isinstance(before, (document.Heading, document.Item)):
        return False
    if isinstance(before, document.Listing) and isinstance(part, document.Listing):
        return False
    return isinstance(before, (document.Title, *blocks)) or isinstance(part, blocks)


def _keeps_its_lines(part: Part) -> bool:
    if isinstance(part, document.Table):
        return part.fit is document.Fit.STAY
    return isinstance(part, document.Listing)


def _text(part: Part, display: Display) -> str:
    if _keeps_its_lines(part):
        display = replace(display, width=_ENDLESS)
    out = io.StringIO()
    console = Console(
        file=out,
        width=display.width,
        force_terminal=display.color,
        color_system="standard" if display.color else None,
        highlight=False,
        emoji=False,
    )
    console.print(_drawn(part, display.width))
    # Rich fills lines with blanks, which only trouble whoever copies them.
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


# Every text goes through `Text`: rich takes brackets in a plain string for markup.
def _drawn(part: Part, width: int) -> RenderableType:
    match part:
        case document.Title():
            result = Text(part.result, style=f"bold {_STYLES[part.tone]}")
            return Group(result, Text(part.about, style="dim")) if part.about else result
        case document.Heading():
            return Text(part.text, style="bold")
        case document.Paragraph():
            return Text.assemble((part.text, _STYLES[part.tone]), " ", (part.aside, "dim"))
        case document.Item():
            notes = [_indented(Text(note, style="dim"), 4) for note in part.notes]
            return Group(_indented(Text(part.text, style=_STYLES[part.tone]), 2), *notes)
        case document.Labelled():
            return _labelled(part)
        case document.Listing():
            return Text(part.text)
        case document.Table():
            return Group(*_tables(part, width))


def _indented(text: Text, by: int) -> RenderableType:
    return Padding(text, (0, 0, 0, by))


def _labelled(part: document.Labelled) -> RenderableType:
    grid = Columns.grid(padding=(0, 1, 0, 0))
    grid.add_column(style="dim")
    grid.add_column()
    for label, text in part.texts:
        grid.add_row(Text(f"  {label}"), Text(text))
    return grid


def _tables(table: document.Table, width: int) -> Iterator[RenderableType]:
    """The table, or several with some of its columns each, the first in all of them."""
    if table.fit is not document.Fit.SPLIT:
        yield _columns(table, range(len(table.headings)))
        return
    widths = [_column_width(table, number) for number in range(len(table.headings))]
    names = min(widths[0], width // 2)
    for place, numbers in enumerate(_fitting(widths, width - names)):
        if place:
            yield Text("")
        yield _columns(table, [0, *numbers], names)


def _fitting(widths: list[int], width: int) -> Iterator[list[int]]:
    """The numbers of the columns beside the first, in as few groups as fit; at least one each."""
    group: list[int] = []
    room = width
    for number, needed in enumerate(widths[1:], 1):
        if group and needed + _GAP > room:
            yield group
            group, room = [], width
        group.append(number)
        room -= needed + _GAP
    yield group


def _column_width(table: document.Table, number: int) -> int:
    texts = [cells[number].text for cells in table.rows if number < len(cells)]
    lines = [line for text in (table.headings[number], *texts) for line in text.splitlines()]
    return max(map(len, lines), default=1)


def _columns(
    table: document.Table, numbers: list[int] | range, names: int | None = None
) -> Columns:
    """These columns of a table; `names` is the width of the first where the others keep theirs."""
    drawn = Columns(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        header_style="dim",
        show_header=any(table.headings),
    )
    for number in numbers:
        keeps = names is not None and number > 0
        drawn.add_column(Text(table.headings[number]), overflow="fold", no_wrap=keeps)
    if names is not None:
        drawn.columns[0].width = names
    for cells in table.rows:
        texts = [_words(cells[number]) for number in numbers if number < len(cells)]
        if names is not None:
            texts[0].plain = _folded(texts[0].plain, names)
        drawn.add_row(*texts)
    return drawn


def _words(cell: Words) -> Text:
    return Text(cell.text, style=_STYLES[cell.tone])


def _folded(name: str, width: int) -> str:
    """A long name on several lines, broken after its underscores where that is possible."""
    indent = name[: len(name) - len(name.lstrip())]
    lines = [indent]
    for part in re.findall(r".[^_.]*[_.]?", name.lstrip()):
        if len(lines[-1] + part) > width and lines[-1].strip():
            lines.append(indent + "  ")
        lines[-1] += part
    return "\n".join(lines)
