"""The parts of a report for a terminal, or for a text file."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Columns
from rich.text import Text

from flacheck.reports import document
from flacheck.reports.document import Display, Part, Report, Tone
from flacheck.reports.hyperlinks import add_links

_STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.FAINT: "dim",
    Tone.GOOD: "green",
    Tone.DOUBT: "yellow",
    Tone.BAD: "bold red",
}
# The number of blanks between two columns.
_GAP = 2
# Columns of at most so many characters are not broken where others can be.
_UNBROKEN = 20
# Rich breaks every line that is wider than its console, and no line is this wide.
_ENDLESS = 100_000


def render(report: Report, display: Display) -> Iterator[str]:
    """Yield each part as soon as it is available."""
    before: Part | None = None
    for part in map(document.make_visible, report.parts):
        if before is not None and _stands_apart(before, part):
            yield "\n"
        yield _text(part, display)
        before = part


def _stands_apart(before: Part, part: Part) -> bool:
    """Return whether an empty line comes between two parts.

    Sections begin after an empty line; tables and listings have one on both sides, unless they
    belong to the line above.
    """
    if isinstance(part, document.Heading):
        return True
    if isinstance(before, (document.Heading, document.Item)):
        return False
    blocks = (document.Table, document.Listing)
    return isinstance(before, (document.Title, *blocks)) or isinstance(part, blocks)


def _text(part: Part, display: Display) -> str:
    if isinstance(part, document.Labelled) and part.unbroken:
        return "".join(_labelled_rows(part, display))
    stays = isinstance(part, document.Table) and part.fit is document.Fit.STAY
    if stays or isinstance(part, document.Listing):
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
    console.print(_renderable(part, display.width))
    # Rich fills lines with blanks, which disturb when a reader copies them.
    lines = map(str.rstrip, out.getvalue().splitlines())
    if display.links:
        lines = map(add_links, lines)
    return "".join(f"{line}\n" for line in lines)


def _labelled_rows(part: document.Labelled, display: Display) -> Iterator[str]:
    """Yield the rows of labelled texts one by one; links and commands are never broken."""
    width = max(len(label) for label, _ in part.texts)
    for label, text in part.texts:
        row = document.Labelled(((label.ljust(width), text),))
        if label in part.unbroken:
            yield _text(row, replace(display, width=_ENDLESS))
        else:
            yield _text(row, display)


# Every text becomes a `Text`, because rich reads brackets in a plain string as markup.
def _renderable(part: Part, width: int) -> RenderableType:
    match part:
        case document.Title():
            result = Text(part.result, style=f"bold {_STYLES[part.tone]}")
            return Text("\n").join(filter(None, (result, Text(part.about, style="dim"))))
        case document.Heading():
            return Text(part.text, style="bold")
        case document.Paragraph():
            return Text.assemble((part.text, _STYLES[part.tone]), " ", (part.aside, "dim"))
        case document.Item():
            lines = [Padding(Text(part.text, style=_STYLES[part.tone]), (0, 0, 0, 2))]
            for note in part.notes:
                lines.append(Padding(Text(note, style="dim"), (0, 0, 0, 4)))
            return Group(*lines)
        case document.Labelled():
            grid = Columns.grid(padding=(0, 1, 0, 0))
            grid.add_column(style="dim")
            for label, text in part.texts:
                grid.add_row(Text(f"  {label}"), Text(text))
            return grid
        case document.Listing():
            return Text(part.text)
        case document.Table():
            return Group(*_tables(part, width))


def _tables(table: document.Table, width: int) -> Iterator[RenderableType]:
    """Yield the table, or several with some of its columns each; all have the first column."""
    if table.fit is not document.Fit.SPLIT:
        yield _columns(table, range(len(table.headings)), width)
        return
    widths = [1] * len(table.headings)
    headings = document.row(*table.headings)
    for cells in (headings, *table.rows):
        for number, cell in enumerate(cells):
            widths[number] = max([widths[number], *map(len, cell.text.splitlines())])
    names = min(widths[0], width // 2)
    for place, numbers in enumerate(_fitting(widths, width - names)):
        if place:
            yield Text("")
        yield _columns(table, [0, *numbers], width, names)


def _fitting(widths: list[int], width: int) -> Iterator[list[int]]:
    """Yield the numbers of the columns beside the first, in as few groups as fit."""
    group: list[int] = []
    room = width
    for number, column_width in enumerate(widths[1:], 1):
        if group and column_width + _GAP > room:
            yield group
            group, room = [], width
        group.append(number)
        room -= column_width + _GAP
    yield group


def _columns(
    table: document.Table, numbers: list[int] | range, width: int, names: int | None = None
) -> Columns:
    """Return these columns of a table; with a width for `names` those in the first are folded."""
    short_columns = {}
    for number in numbers:
        column_width = _width_of(table, number)
        if column_width <= _UNBROKEN:
            short_columns[number] = column_width + _GAP
    # Rich cuts an unbroken column that does not fit: a version would lose its end.
    if sum(short_columns.values()) > width:
        short_columns.clear()
    # The columns are without borders, and wide cells continue on the next line.
    columns = Columns(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        header_style="bold",
        show_header=any(table.headings),
    )
    for number in numbers:
        # A version or a count stays on one line; only sentences and names are broken.
        is_short = number in short_columns
        columns.add_column(Text(table.headings[number]), overflow="fold", no_wrap=is_short)
    for cells in table.rows:
        cells_to_show = [cells[number] for number in numbers if number < len(cells)]
        if names is not None:
            # Rich would break a kernel's name wherever the column ends.
            cells_to_show[0] = replace(cells_to_show[0], text=_fold(cells_to_show[0].text, names))
        texts = []
        for cell in cells_to_show:
            texts.append(Text(cell.text, style=_STYLES[cell.tone]))
        columns.add_row(*texts)
    return columns


def _width_of(table: document.Table, number: int) -> int:
    """Return the characters of the longest line in a column."""
    lines = table.headings[number].splitlines()
    for cells in table.rows:
        if number < len(cells):
            lines += cells[number].text.splitlines()
    return max(map(len, lines), default=0)


def _fold(name: str, width: int) -> str:
    """Return a long name on several lines, broken after underscores if possible."""
    indent = name[: len(name) - len(name.lstrip())]
    lines = [indent]
    for part in re.findall(r".[^_.]*[_.]?", name.lstrip()):
        if len(lines[-1] + part) > width and lines[-1].strip():
            lines.append(indent + "  ")
        lines[-1] += part
    return "\n".join(lines)
