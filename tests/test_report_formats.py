"""What each renderer does with the parts of a document."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flacheck import reports
from flacheck.model import Json
from flacheck.reports.document import (
    Annotation,
    Display,
    Fit,
    Heading,
    Item,
    Labelled,
    Listing,
    Paragraph,
    Part,
    Report,
    Streamed,
    Table,
    Title,
    Tone,
    Words,
    row,
)
from flacheck.reports.formats.markdown import MOST_ROWS

WIDE = "a line that is wider than the display"


def rendered(format: str, *parts: Part, width: int = 20, color: bool = False) -> str:
    return "".join(reports.render(format, Report(parts), Display(width, color)))


# For a terminal


def test_sections_and_blocks_stand_apart() -> None:
    """An empty line before a heading and around a table, none within a list."""
    table = Table(("a", "b"), (row("1", "2"),))
    items = (Item("one"), Item("two"))
    parts = (Title("x", "done", Tone.GOOD), table, Heading("More"), *items, Heading("All"), table)
    expected = "done\n\na  b\n1  2\n\nMore\n  one\n  two\n\nAll\na  b\n1  2\n"
    assert rendered("table", *parts) == expected


def test_sentences_are_broken_and_listings_are_not() -> None:
    """What is copied keeps its lines on any display."""
    assert rendered("table", Paragraph(WIDE)) == "a line that is wider\nthan the display\n"
    assert rendered("table", Listing(WIDE)) == f"{WIDE}\n"


def test_a_table_too_wide_folds_splits_or_stays() -> None:
    """As the table says; nothing is lost."""
    headings = ("kernel", "3.1.0", "3.2.0", "3.3.0")
    rows = (row("chunk_fwd", "1/1", "2/2", "3/3"),)
    stays = rendered("table", Table(headings, rows, Fit.STAY))
    assert stays == "kernel     3.1.0  3.2.0  3.3.0\nchunk_fwd  1/1    2/2    3/3\n"
    split = rendered("table", Table(headings, rows, Fit.SPLIT))
    assert split.split("\n\n") == [
        f"kernel     {release}\nchunk_fwd  {cell}" + "\n" * (release == "3.3.0")
        for release, cell in (("3.1.0", "1/1"), ("3.2.0", "2/2"), ("3.3.0", "3/3"))
    ]
    folded = rendered("table", Table(("a", "b"), (row(WIDE, WIDE),)))
    assert max(map(len, folded.splitlines())) <= 20


def test_a_long_name_breaks_after_an_underscore() -> None:
    """In the first column of a table that is split."""
    rows = (row("  chunk_gated_fwd", "1/1"),)
    text = rendered("table", Table(("sm90", "3.1.0"), rows, Fit.SPLIT), width=24)
    assert text == "sm90        3.1.0\n  chunk_    1/1\n    gated_\n    fwd\n"


def test_a_row_may_end_early() -> None:
    """A package stands alone above its kernels."""
    rows = ((Words("fla==0.1", Tone.FAINT),), row("  k", "1/1"))
    table = Table(("sm90", "3.1.0"), rows, Fit.SPLIT)
    assert rendered("table", table) == "sm90      3.1.0\nfla==0.1\n  k       1/1\n"
    assert "| fla==0.1 |  |\n| k | 1/1 |\n" in rendered("markdown", table)


def test_brackets_and_colons_are_no_markup() -> None:
    """Neither for rich nor for a terminal."""
    text = "[bold]x[/bold] :smile: [1]"
    for part in (Paragraph(text), Item(text), Heading(text), Listing(text)):
        assert rendered("table", part, width=80).strip() == text
    assert text in rendered("table", Table((text,), (row(text),)), width=80)


def test_tones_are_colours_on_a_terminal_alone() -> None:
    """A file gets none."""
    assert rendered("table", Item("fails", Tone.BAD), color=True) == "  \x1b[1;31mfails\x1b[0m\n"
    assert rendered("table", Item("fails", Tone.BAD)) == "  fails\n"


# Markdown


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
    """What a message holds is shown as it is, in prose and in code."""
    assert rendered("markdown", Item(text)) == f"- {plain}\n"
    assert rendered("markdown", Item(text, code=True)) == f"- {code}\n"


def test_a_bar_does_not_end_a_cell() -> None:
    """Not even within code."""
    table = Table(("a|b",), ((Words("c | d", code=True),),))
    assert rendered("markdown", table) == "| a\\|b |\n| --- |\n| `c \\| d` |\n"


def test_a_listing_that_holds_a_fence_has_a_longer_one() -> None:
    """So it ends where it ends."""
    assert rendered("markdown", Listing("```\nx\n```", "text")) == "````text\n```\nx\n```\n````\n"


def test_markdown_leaves_rows_out_and_says_so() -> None:
    """GitHub takes no more than 65,536 characters."""
    table = Table(("n",), tuple(row(str(n)) for n in range(MOST_ROWS + 2)))
    text = rendered("markdown", table)
    assert f"| {MOST_ROWS - 1} |" in text
    assert f"| {MOST_ROWS} |" not in text
    assert text.endswith("\n2 more rows omitted (--format json has all)\n")


def test_details_are_folded() -> None:
    """Cause and remedy are there for whoever opens them."""
    part = Labelled((("cause", "too < many"), ("remedy", "fewer")))
    expected = "cause: too \\< many\n\nremedy: fewer"
    start = "<details><summary>cause, remedy</summary>\n\n"
    assert rendered("markdown", part) == f"{start}{expected}\n\n</details>\n"


# For workflows and programs


def test_only_annotations_reach_a_workflow() -> None:
    """Each on one line, whatever it holds."""
    said = (
        Annotation("error", "a: b, c", "50%\nof it", "r.txt", 3),
        Annotation("notice", "d", "e: f"),
    )
    report = Report([Paragraph("not this")], annotations=said)
    lines = "".join(reports.render("github", report, Display())).splitlines()
    assert lines == [
        "::error file=r.txt,line=3,title=a%3A b%2C c::50%25%0Aof it",
        "::notice title=d::e: f",
    ]


def test_a_long_list_is_written_item_by_item() -> None:
    """In both formats the second item is asked for after the first is written."""
    asked: list[int] = []

    def items() -> Iterator[Json]:
        for number in range(3):
            asked.append(number)
            yield {"n": number}

    def report() -> Report:
        return Report([], Streamed({"schema": "x"}, "items", items(), {"end": None}))

    whole = "".join(reports.render("json", report(), Display()))
    body = '{"n": 0},\n{"n": 1},\n{"n": 2}'
    assert whole == f'{{"schema": "x",\n"items": [\n{body}\n],\n"end": null}}\n'
    asked.clear()
    lines = reports.render("jsonl", report(), Display())
    assert [next(lines), next(lines)] == ['{"schema": "x"}\n', '{"n": 0}\n']
    assert asked == [0]
    assert list(lines)[-1] == '{"end": null}\n'
