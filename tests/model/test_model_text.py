"""Text that others wrote, shown as what it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.model.text import code_span, fence, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\tcolumns\nand lines", "two\tcolumns\nand lines"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb", "a\\rb"),
        ("abc\u202edef", "abc\\u202edef"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\U000e0041", "\\U000e0041"),
        ("half \ud800", "half \\ud800"),
        ("Größe ≤ 4 … 漢字", "Größe ≤ 4 … 漢字"),
    ],
)
def test_what_would_act_is_shown(text: str, shown: str) -> None:
    """By its escape; letters of every language stay."""
    assert visible(text) == shown


@given(st.text(st.characters(), max_size=40))
def test_what_is_visible_stays_so(text: str) -> None:
    """Escapes hold nothing that is escaped again, and all can be encoded."""
    shown = visible(text)
    assert visible(shown) == shown
    shown.encode("utf-8")


@given(st.text("`a ", max_size=20))
def test_a_fence_is_longer_than_what_it_holds(text: str) -> None:
    """Whatever a listing or a line of code quotes."""
    assert fence(text, 3) not in text
    assert len(fence(text, 3)) >= 3
    marks = fence(text, 1)
    assert code_span(text).startswith(marks)
    assert code_span(text).endswith(marks)


def test_a_line_of_code_keeps_its_own_backticks_apart() -> None:
    """Markdown takes one blank at each end away again."""
    assert code_span("x") == "`x`"
    assert code_span("`f' fails") == "`` `f' fails ``"
    assert code_span(" x") == "`  x `"
