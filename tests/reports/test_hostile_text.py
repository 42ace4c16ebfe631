"""Reports of what others wrote: names and messages are shown, and never act."""

from __future__ import annotations

import pytest

from flacheck import reports
from flacheck.model.source_location import SourceLocation
from flacheck.reports.document import (
    Annotation,
    Display,
    Heading,
    Item,
    Labelled,
    Listing,
    Paragraph,
    Part,
    Report,
    Table,
    Title,
    Tone,
    Words,
    row,
)


def render_parts(format: str, *parts: Part, width: int = 80) -> str:
    return "".join(reports.render(format, Report(parts), Display(width)))


HOSTILE = "k\x1b]0;pwned\x07\x00\u202egnp.\x9b31m\r\ud800|`x`<img src=x>[a](http://b)"
ACTING = set("\x1b\x07\x00\u202e\x9b\r\ud800")


@pytest.mark.parametrize("format", ["table", "markdown"])
def test_what_others_wrote_is_shown_and_never_acts(format: str) -> None:
    """Control characters are escaped in every part."""
    parts = (
        Title(HOSTILE, HOSTILE, Tone.BAD, HOSTILE),
        Heading(HOSTILE),
        Paragraph(HOSTILE, aside=HOSTILE),
        Item(HOSTILE, notes=(HOSTILE,), code=True),
        Labelled(((HOSTILE, HOSTILE),)),
        Listing(HOSTILE),
        Table((HOSTILE,), (row(HOSTILE, Words(HOSTILE, code=True)),)),
    )
    text = render_parts(format, *parts, width=400)
    assert not ACTING & set(text)
    assert r"\x1b]0;pwned" in text or r"\\x1b]0;pwned" in text


def test_annotations_hold_nothing_that_acts() -> None:
    """Control characters are escaped in annotations."""
    annotation = Annotation("error", HOSTILE, HOSTILE, (SourceLocation(HOSTILE, 3, HOSTILE),))
    text = "".join(reports.render("github", Report([], annotations=[annotation]), Display()))
    assert not ACTING & set(text)
    assert len(text.splitlines()) == 1


def test_code_keeps_its_backticks_and_bars() -> None:
    """Backticks and bars in code stay inside their cell."""
    table = Table(("k",), ((Words(r"a\|`b`", code=True),),))
    last = render_parts("markdown", table).splitlines()[-1]
    assert last == "| <code>a&#92;&#124;&#96;b&#96;</code> |"
    assert render_parts("markdown", Item("` x", code=True)) == "- `` ` x ``\n"


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("[a](http://b)", r"\[a](http://b)"),
        ("&#x202e;", r"\&#x202e;"),
        ("# big", r"\# big"),
        ("> quoted", r"\> quoted"),
        ("- listed", r"\- listed"),
        ("~~gone~~", r"\~~gone\~~"),
        ("a-b #3 ~4", "a-b #3 ~4"),
    ],
)
def test_markdown_makes_no_links_headings_or_entities_of_text(text: str, markdown: str) -> None:
    """Text does not become Markdown markup."""
    assert render_parts("markdown", Paragraph(text)) == f"{markdown}\n"
