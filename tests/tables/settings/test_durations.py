"""Durations as people write them."""

from __future__ import annotations

import pytest

from flacheck.tables.settings import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("1.5h", 5400), ("30d", 2_592_000), (" 2 m ", 120)],
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    """A number without a unit is in seconds."""
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1s", "1w", "", "s", "nan", "1h30m", "9" * 400, "١s"])
def test_anything_else_is_none(text: str) -> None:
    """Zero, infinity and other units are not durations."""
    assert durations.parse(text) is None
