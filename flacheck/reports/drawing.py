"""What the reports for a terminal are drawn with."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from flacheck.reports.base import Page


def text_of(section: Iterable[RenderableType], page: Page) -> str:
    """A section as text for a page of that width."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=page.width,
        force_terminal=page.color,
        color_system="standard" if page.color else None,
        highlight=False,
        emoji=False,
    )
    for part in section:
        console.print(part)
    # Rich fills lines with blanks, which only trouble whoever copies them.
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def heading(text: str) -> Text:
    """What a section begins with."""
    return Text(text, style="bold")


def labelled(label: str, text: str) -> RenderableType:
    """A paragraph with a word before it."""
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_column(width=8, style="dim")
    row.add_column()
    row.add_row(Text(f"  {label}"), Text(text))
    return row


def table(*headers: str) -> Table:
    """Columns without lines; a long cell goes on below."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in headers:
        made.add_column(header, overflow="fold")
    return made
