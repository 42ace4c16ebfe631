"""Escaping of text that others wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.model.text import code_span, fence, visible


@pytest.mark.parametrize(
    ("text", "escaped_text"),
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
def test_what_would_act_is_shown(text: str, escaped_text: str) -> None:
    """Control characters are escaped, letters stay."""
    assert visible(text) == escaped_text


@given(st.text(st.characters(), max_size=40))
def test_what_is_visible_stays_so(text: str) -> None:
    """Escaped text is not escaped again."""
    escaped_text = visible(text)
    assert visible(escaped_text) == escaped_text
    escaped_text.encode("utf-8")


@given(st.text("`a ", max_size=20))
def test_a_fence_is_longer_than_what_it_holds(text: str) -> None:
    """A fence is longer than any in its text."""
    assert fence(text, 3) not in text
    assert len(fence(text, 3)) >= 3
    marks = fence(text, 1)
    assert code_span(text).startswith(marks)
    assert code_span(text).endswith(marks)


def test_a_line_of_code_keeps_its_own_backticks_apart() -> None:
    """A code span's backticks are separated by blanks."""
    assert code_span("x") == "`x`"
    assert code_span("`f' fails") == "`` `f' fails ``"
    assert code_span(" x") == "`  x `"
