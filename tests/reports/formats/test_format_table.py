"""The parts of a report on a terminal."""

from __future__ import annotations

from flacheck.reports.document import (
    Display,
    Fit,
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
from flacheck.reports.formats import table as table_format


def render_parts(*parts: Part, width: int = 20, color: bool = False) -> str:
    return "".join(table_format.render(Report(parts), Display(width, color)))


WIDE = "a line that is wider than the display"


def test_sections_and_blocks_stand_apart() -> None:
    """Headings and tables have empty lines around them, list items do not."""
    table = Table(("a", "b"), (row("1", "2"),))
    items = (Item("one"), Item("two"))
    parts = (Title("x", "done", Tone.GOOD), table, Heading("More"), *items, Heading("All"), table)
    page = "done\n\na  b\n1  2\n\nMore\n  one\n  two\n\nAll\na  b\n1  2\n"
    assert render_parts(*parts) == page


def test_sentences_are_broken_and_listings_are_not() -> None:
    """Sentences are wrapped, listings keep their lines."""
    assert render_parts(Paragraph(WIDE)) == "a line that is wider\nthan the display\n"
    assert render_parts(Listing(WIDE)) == f"{WIDE}\n"


def test_a_table_too_wide_folds_splits_or_stays() -> None:
    """A wide table is folded, split or left as it is."""
    headings = ("kernel", "3.1.0", "3.2.0", "3.3.0")
    rows = (row("chunk_fwd", "1/1", "2/2", "3/3"),)
    stays = render_parts(Table(headings, rows, Fit.STAY))
    assert stays == "kernel     3.1.0  3.2.0  3.3.0\nchunk_fwd  1/1    2/2    3/3\n"
    split = render_parts(Table(headings, rows, Fit.SPLIT))
    assert split.split("\n\n") == [
        f"kernel     {release}\nchunk_fwd  {cell}" + "\n" * (release == "3.3.0")
        for release, cell in (("3.1.0", "1/1"), ("3.2.0", "2/2"), ("3.3.0", "3/3"))
    ]
    lines = render_parts(Table(("a", "b"), (row(WIDE, WIDE),)))
    assert max(map(len, lines.splitlines())) <= 20


def test_a_long_name_breaks_after_an_underscore() -> None:
    """A long name in the first column breaks after an underscore."""
    rows = (row("  chunk_gated_fwd", "1/1"),)
    text = render_parts(Table(("sm90", "3.1.0"), rows, Fit.SPLIT), width=24)
    assert text == "sm90        3.1.0\n  chunk_    1/1\n    gated_\n    fwd\n"


def test_a_row_may_end_early() -> None:
    """A row may have fewer cells than the heading."""
    rows = ((Words("fla==0.1", Tone.FAINT),), row("  k", "1/1"))
    table = Table(("sm90", "3.1.0"), rows, Fit.SPLIT)
    assert render_parts(table) == "sm90      3.1.0\nfla==0.1\n  k       1/1\n"


def test_brackets_and_colons_are_no_markup() -> None:
    """Brackets and colons are printed as they are."""
    text = "[bold]x[/bold] :smile: [1]"
    for part in (Paragraph(text), Item(text), Heading(text), Listing(text)):
        assert render_parts(part, width=80).strip() == text
    assert text in render_parts(Table((text,), (row(text),)), width=80)


def test_tones_are_colours_on_a_terminal_alone() -> None:
    """Only a terminal has colours."""
    assert render_parts(Item("fails", Tone.BAD), color=True) == "  \x1b[1;31mfails\x1b[0m\n"
    assert render_parts(Item("fails", Tone.BAD)) == "  fails\n"


def test_details_stand_behind_their_words() -> None:
    """Details are aligned in one column."""
    part = Labelled((("cause", "too many"), ("remedy", "fewer")))
    assert render_parts(part, width=40) == "  cause  too many\n  remedy fewer\n"


def test_no_line_ends_in_blanks() -> None:
    """No line ends in blanks."""
    table = Table(("kernel", "verdict"), (row("k", ""), row("longer", "fails")))
    assert [line for line in render_parts(table, width=60).splitlines() if line.endswith(" ")] == []


def test_a_version_is_not_broken_for_a_long_sentence_beside_it() -> None:
    """Only the last column is wrapped if it is the longest."""
    sentence = "no record of any package, launches file or matrix that the gate was given " * 2
    cells = row("3.10.1", "2.15.0", "partial 971/10340", sentence)
    table = Table(("Triton", "torch", "state", ""), (cells,))
    lines = render_parts(table, width=60).splitlines()
    assert lines[1].startswith("3.10.1  2.15.0  partial 971/10340  no record")
    assert all(len(line) <= 60 for line in lines)


def test_a_narrow_terminal_loses_no_character() -> None:
    """Columns that do not fit are wrapped instead of cut."""
    cells = ("3.7.1", "2.12.1, 2.13.0", "screened", "1 of 6")
    table = Table(("Triton", "torch", "standing", "configurations"), (row(*cells),))
    for width in (24, 40, 60):
        lines = render_parts(table, width=width).splitlines()
        assert max(map(len, lines)) <= width
        assert sorted("".join("".join(lines).split())) == sorted(
            "".join(["Triton", "torch", "standing", "configurations", *cells]).replace(" ", "")
        )
