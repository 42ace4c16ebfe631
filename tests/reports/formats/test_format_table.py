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


def rendered(*parts: Part, width: int = 20, color: bool = False) -> str:
    return "".join(table_format.render(Report(parts), Display(width, color)))


WIDE = "a line that is wider than the display"


def test_sections_and_blocks_stand_apart() -> None:
    """An empty line before a heading and around a table, none within a list."""
    table = Table(("a", "b"), (row("1", "2"),))
    items = (Item("one"), Item("two"))
    parts = (Title("x", "done", Tone.GOOD), table, Heading("More"), *items, Heading("All"), table)
    expected = "done\n\na  b\n1  2\n\nMore\n  one\n  two\n\nAll\na  b\n1  2\n"
    assert rendered(*parts) == expected


def test_sentences_are_broken_and_listings_are_not() -> None:
    """What is copied keeps its lines on any display."""
    assert rendered(Paragraph(WIDE)) == "a line that is wider\nthan the display\n"
    assert rendered(Listing(WIDE)) == f"{WIDE}\n"


def test_a_table_too_wide_folds_splits_or_stays() -> None:
    """As the table says; nothing is lost."""
    headings = ("kernel", "3.1.0", "3.2.0", "3.3.0")
    rows = (row("chunk_fwd", "1/1", "2/2", "3/3"),)
    stays = rendered(Table(headings, rows, Fit.STAY))
    assert stays == "kernel     3.1.0  3.2.0  3.3.0\nchunk_fwd  1/1    2/2    3/3\n"
    split = rendered(Table(headings, rows, Fit.SPLIT))
    assert split.split("\n\n") == [
        f"kernel     {release}\nchunk_fwd  {cell}" + "\n" * (release == "3.3.0")
        for release, cell in (("3.1.0", "1/1"), ("3.2.0", "2/2"), ("3.3.0", "3/3"))
    ]
    folded = rendered(Table(("a", "b"), (row(WIDE, WIDE),)))
    assert max(map(len, folded.splitlines())) <= 20


def test_a_long_name_breaks_after_an_underscore() -> None:
    """In the first column of a table that is split."""
    rows = (row("  chunk_gated_fwd", "1/1"),)
    text = rendered(Table(("sm90", "3.1.0"), rows, Fit.SPLIT), width=24)
    assert text == "sm90        3.1.0\n  chunk_    1/1\n    gated_\n    fwd\n"


def test_a_row_may_end_early() -> None:
    """A package stands alone above its kernels."""
    rows = ((Words("fla==0.1", Tone.FAINT),), row("  k", "1/1"))
    table = Table(("sm90", "3.1.0"), rows, Fit.SPLIT)
    assert rendered(table) == "sm90      3.1.0\nfla==0.1\n  k       1/1\n"


def test_brackets_and_colons_are_no_markup() -> None:
    """Neither for rich nor for a terminal."""
    text = "[bold]x[/bold] :smile: [1]"
    for part in (Paragraph(text), Item(text), Heading(text), Listing(text)):
        assert rendered(part, width=80).strip() == text
    assert text in rendered(Table((text,), (row(text),)), width=80)


def test_tones_are_colours_on_a_terminal_alone() -> None:
    """A file gets none."""
    assert rendered(Item("fails", Tone.BAD), color=True) == "  \x1b[1;31mfails\x1b[0m\n"
    assert rendered(Item("fails", Tone.BAD)) == "  fails\n"


def test_details_stand_behind_their_words() -> None:
    """In one column, on whatever display."""
    part = Labelled((("cause", "too many"), ("remedy", "fewer")))
    assert rendered(part, width=40) == "  cause  too many\n  remedy fewer\n"


def test_no_line_ends_in_blanks() -> None:
    """Rich fills lines up, which troubles whoever copies them."""
    table = Table(("kernel", "verdict"), (row("k", ""), row("longer", "fails")))
    assert [line for line in rendered(table, width=60).splitlines() if line.endswith(" ")] == []


def test_a_version_is_not_broken_for_a_long_sentence_beside_it() -> None:
    """The last column, which is longer than the line, is the one that is broken."""
    sentence = "no record of any package, launches file or matrix that the gate was given " * 2
    cells = row("3.10.1", "2.15.0", "partial 971/10340", sentence)
    table = Table(("Triton", "torch", "state", ""), (cells,))
    lines = rendered(table, width=60).splitlines()
    assert lines[1].startswith("3.10.1  2.15.0  partial 971/10340  no record")
    assert all(len(line) <= 60 for line in lines)


def test_a_narrow_terminal_loses_no_character() -> None:
    """Short columns that do not fit together are broken instead of cut."""
    cells = ("3.7.1", "2.12.1, 2.13.0", "screened", "1 of 6")
    table = Table(("Triton", "torch", "standing", "configurations"), (row(*cells),))
    for width in (24, 40, 60):
        lines = rendered(table, width=width).splitlines()
        assert max(map(len, lines)) <= width
        assert sorted("".join("".join(lines).split())) == sorted(
            "".join(["Triton", "torch", "standing", "configurations", *cells]).replace(" ", "")
        )
