"""The places where two results disagree, without a GPU."""

from __future__ import annotations

import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.guest.card import memory
from flacheck.guest.card.memory import Layout, places_outside

COUNT = 3_000
LAUNCH = {
    "storages": [4 * COUNT],
    "tensors": {"y": {"storage": 0, "dtype": "fp32", "offset": 0}},
    "tolerance": 1e-3,
}


def _results(wrong: set[int]) -> tuple[bytes, bytes]:
    right = array.array("f", [1.0] * COUNT)
    other = array.array("f", right)
    for place in wrong:
        other[place] = 2.0
    return right.tobytes(), other.tobytes()


@given(st.sets(st.integers(0, COUNT - 1), max_size=500))
def test_every_place_of_a_small_storage_is_found(wrong: set[int]) -> None:
    """None is added, and none is lost."""
    assert places_outside(Layout(LAUNCH), 0, *_results(wrong), 1e-3) == sorted(wrong)


def test_parts_of_a_large_storage_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places are those in the whole storage."""
    monkeypatch.setattr(memory, "_MOST_SEARCHED_BYTES", COUNT)
    monkeypatch.setattr(memory, "_WINDOW", 64)
    wrong = set(range(0, COUNT, 3))
    found = places_outside(Layout(LAUNCH), 0, *_results(wrong), 1e-3)
    assert set(found) <= wrong
    assert len(found) == pytest.approx(len(wrong) / 4, rel=0.1)
    assert max(found) > 0.95 * COUNT
