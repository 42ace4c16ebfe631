"""Slow compiles."""

from __future__ import annotations

from typing import Any

import pytest

from flacheck.evidence.analysis.slow import mark_slow
from flacheck.evidence.analysis.summary import summarise
from flacheck.model import Record
from tests.made_records import (
    CONTEXT,
    failure,
    record,
)


def _record(seconds: float, release: str, **more: Any) -> Record:
    return record(seconds=seconds, toolchain=f"triton=={release}", **more)


@pytest.mark.parametrize(
    ("seconds", "others", "slow"),
    [
        (90.0, [6.0, 5.0], True),
        (90.0, [6.0], True),
        (90.0, [], False),
        (9.9, [0.1, 0.1], False),
        (29.0, [6.0, 6.0], False),
        (30.0, [6.0, 1.0, 60.0], True),
    ],
)
def test_a_slow_compile_is_one_of_ten_seconds_and_five_medians(
    seconds: float, others: list[float], slow: bool
) -> None:
    """A slow compile takes 10 s and 5 times the median of other releases."""
    cells = [_record(seconds, "3.4.0"), *(_record(s, f"3.5.{n}") for n, s in enumerate(others))]
    assert (cells[0].key in summarise(cells, CONTEXT).slow) == slow


def test_a_slow_compile_is_compared_with_the_same_cell_only() -> None:
    """Other options, dtypes, targets and failures do not count."""
    others = [
        _record(1.0, "3.5.0", options={"num_warps": 8, "num_stages": 2}),
        _record(1.0, "3.5.0", dtype="fp32"),
        _record(1.0, "3.5.0", target="sm80"),
        failure(toolchain="triton==3.5.0", seconds=0.1),
    ]
    assert summarise([_record(90.0, "3.4.0"), *others], CONTEXT).slow == {}


def test_a_slow_compile_gets_a_finding_and_keeps_its_verdict() -> None:
    """FC921 is added once and the verdict stays."""
    cells = [_record(90.0, "3.4.0"), _record(6.0, "3.5.0")]
    slow = summarise(cells, CONTEXT).slow
    records = list(mark_slow(mark_slow(cells, slow), slow))
    finding = {"code": "FC921", "title": "slow compile", "facts": {"seconds": 90.0, "median": 6.0}}
    assert records == [cells[0].with_(findings=(finding,)), cells[1]]
