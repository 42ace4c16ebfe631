"""A summary of records, whatever their order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flacheck.evidence.analysis.summary import summarise
from flacheck.model import Record
from tests.made_records import (
    CONTEXT,
    RUNS,
    failure,
    record,
    whole,
)


@settings(max_examples=25, deadline=None)
@given(RUNS, st.randoms())
def test_the_order_of_records_does_not_matter(cells: list[Record], random: Any) -> None:
    """The summary does not depend on the order of shards."""
    mixed = list(cells)
    random.shuffle(mixed)
    assert (
        summarise(mixed, CONTEXT).document().to_json()
        == summarise(cells, CONTEXT).document().to_json()
    )


def test_what_another_shard_could_not_test_belongs_to_the_answer() -> None:
    """Untested launches of another shard are listed, but not counted with this run."""
    made_up = failure("FC000", stage="ast", kernel="m:other")
    whole_question = whole([record(), made_up], made_up=[made_up.key])
    summary = summarise([record()], replace(CONTEXT, standings=whole_question))
    assert [each.kernel for each in summary.untested_groups] == ["m:other"]
    assert (summary.tally.untested_count, summary.tally.total) == (0, 1)
    assert [release.triton for release in summary.known_good] == ["3.2.0"]
