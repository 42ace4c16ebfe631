"""A summary of records, whatever their order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flacheck.analysis.summary import summarise
from flacheck.model import Record
from tests.made_records import (
    CONTEXT,
    RUNS,
)


@settings(max_examples=25, deadline=None)
@given(RUNS, st.randoms())
def test_the_order_of_records_does_not_matter(cells: list[Record], random: Any) -> None:
    """Shards may come in any order: the summary is the same."""
    mixed = list(cells)
    random.shuffle(mixed)
    assert summarise(mixed, CONTEXT).to_json() == summarise(cells, CONTEXT).to_json()
