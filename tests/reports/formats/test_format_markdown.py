"""The parts of a report as GitHub reads Markdown."""

from __future__ import annotations

import pytest

from flacheck.reports.document import (
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
from flacheck.reports.formats import markdown
from flacheck.reports.formats.markdown import MOST_ROWS


def render_parts(*parts: Part) -> str:
    return "".join(markdown.render(Report(parts), Display()))


@pytest.mark.parametrize(
    ("text", "plain", "code"),
    [
        ("a < b", r"a \< b", "`a < b`"),
        ("2.5.*", r"2.5.\*", "`2.5.*`"),
        ("`f' fails", r"\`f' fails", "`` `f' fails ``"),
        ("one\ntwo", "one<br>two", "`one`<br>`two`"),
        ("num_warps", "num_warps", "`num_warps`"),
    ],
)
def test_markdown_is_escaped(text: str, plain: str, code: str) -> None:
    """Special characters are escaped in prose and in code."""
    assert render_parts(Item(text)) == f"- {plain}\n"
    assert render_parts(Item(text, code=True)) == f"- {code}\n"


def test_a_bar_does_not_end_a_cell() -> None:
    """A bar is escaped in a table's cell, also within code."""
    table = Table(("a|b",), ((Words("c | d", code=True),),))
    assert render_parts(table) == "| a\\|b |\n| --- |\n| `c \\| d` |\n"


def test_a_listing_that_holds_a_fence_has_a_longer_one() -> None:
    """A listing's fence is longer than one in its text."""
    assert render_parts(Listing("```\nx\n```", "text")) == "````text\n```\nx\n```\n````\n"


def test_markdown_leaves_rows_out_and_says_so() -> None:
    """A note counts the omitted rows."""
    table = Table(("n",), tuple(row(str(n)) for n in range(MOST_ROWS + 2)))
    text = render_parts(table)
    assert f"| {MOST_ROWS - 1} |" in text
    assert f"| {MOST_ROWS} |" not in text
    assert text.endswith("\n2 more rows omitted (--format json has all)\n")


def test_details_are_folded() -> None:
    """Cause and remedy are folded."""
    part = Labelled((("cause", "too < many"), ("remedy", "fewer")))
    body = "cause: too \\< many\n\nremedy: fewer"
    start = "<details><summary>cause, remedy</summary>\n\n"
    assert render_parts(part) == f"{start}{body}\n\n</details>\n"


def test_a_row_that_ends_early_is_filled() -> None:
    """A short row is filled with empty cells."""
    rows = ((Words("fla==0.1", Tone.FAINT),), row("  k", "1/1"))
    text = render_parts(Table(("sm90", "3.1.0"), rows))
    assert text == "| sm90 | 3.1.0 |\n| --- | --- |\n| fla==0.1 |  |\n| k | 1/1 |\n"


def test_a_title_is_a_heading_with_its_answer_below() -> None:
    """A title is a heading, and paragraphs are apart from list items."""
    title = Title("Scan", "1 fails", Tone.BAD, "sm90")
    text = render_parts(
        title, Heading("Failures"), Item("a"), Item("b", notes=("c",)), Paragraph("d")
    )
    assert text == "## Scan\n\n1 fails\n\nsm90\n\n### Failures\n\n- a\n- b<br>c\n\nd\n"


def test_what_is_strong_or_bad_is_bold() -> None:
    """A bad item is bold; other tones are plain."""
    assert render_parts(Item("fails", Tone.BAD)) == "- **fails**\n"
    assert render_parts(Item("good", Tone.GOOD)) == "- good\n"
