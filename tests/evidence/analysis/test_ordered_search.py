"""Searches compared with their definitions, and their number of compiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flacheck.evidence.analysis.ordered_search import (
    Boundary,
    SearchAnswer,
    State,
    boundary,
    changes,
    turning_points,
)

ANSWERS = st.sampled_from(list(SearchAnswer))
YES_OR_NO = st.sampled_from([SearchAnswer.YES, SearchAnswer.NO])


def run(row: Sequence[SearchAnswer]) -> tuple[Boundary | None, list[int]]:
    """Return the boundary that the search finds, and the examined positions in order."""
    places: list[int] = []
    search = boundary(len(row))
    place = next(search)
    while True:
        places.append(place)
        try:
            place = search.send(row[place])
        except StopIteration as end:
            return end.value, places


def all_boundaries(row: Sequence[SearchAnswer]) -> list[Boundary]:
    """Return every pair that the definition admits, by trying all pairs."""
    start = row[0]
    return [
        (near, far)
        for near in range(len(row))
        for far in range(near + 1, len(row))
        if start is not SearchAnswer.UNKNOWN
        and row[near] is start
        and row[far] not in (start, SearchAnswer.UNKNOWN)
        and all(answer is SearchAnswer.UNKNOWN for answer in row[near + 1 : far])
    ]


@given(st.lists(ANSWERS, min_size=1, max_size=40))
def test_a_boundary_is_one_of_those_that_exist(row: list[SearchAnswer]) -> None:
    """The search finds a boundary if one exists, and examines no position twice."""
    boundary_found, places = run(row)
    assert (
        (boundary_found in all_boundaries(row)) if all_boundaries(row) else (boundary_found is None)
    )
    assert len(places) == len(set(places))
    assert set(places) <= set(range(len(row)))


@given(
    YES_OR_NO,
    st.integers(1, 200),
    st.integers(1, 200),
    st.randoms(use_true_random=False),
    st.floats(0, 0.9),
)
def test_a_row_that_turns_once_has_its_one_boundary_found(
    start: SearchAnswer, before: int, after: int, random: object, holes: float
) -> None:
    """Unknown positions only widen the boundary."""
    other = SearchAnswer.NO if start is SearchAnswer.YES else SearchAnswer.YES
    row = [start] * before + [other] * after
    for place in range(1, len(row)):
        if random.random() < holes:  # type: ignore[attr-defined]
            row[place] = SearchAnswer.UNKNOWN
    boundaries = all_boundaries(row)
    assert len(boundaries) <= 1
    assert run(row)[0] == (boundaries[0] if boundaries else None)


@given(YES_OR_NO, st.integers(1, 500), st.integers(1, 500))
def test_a_row_that_turns_once_is_asked_little(
    start: SearchAnswer, before: int, after: int
) -> None:
    """The search examines twice the logarithm of the boundary's position."""
    other = SearchAnswer.NO if start is SearchAnswer.YES else SearchAnswer.YES
    boundary_found, places = run([start] * before + [other] * after)
    assert boundary_found == (before - 1, before)
    assert len(places) <= 2 * math.ceil(math.log2(before + 1)) + 2


def test_the_same_everywhere_takes_asking_all() -> None:
    """A row without a boundary is examined completely."""
    boundary_found, places = run([SearchAnswer.YES] * 13)
    assert boundary_found is None
    assert sorted(places) == list(range(13))


def test_an_unknown_start_decides_nothing() -> None:
    """A row whose start is unknown has no boundary."""
    assert run([SearchAnswer.UNKNOWN, SearchAnswer.YES, SearchAnswer.NO]) == (None, [0])


@given(st.lists(st.sampled_from(["compiles", "FC302", "FC101", None]), max_size=30))
def test_changes_are_all_pairs_of_unlike_neighbours_when_unknowns_are_left_out(
    states: list[str | None],
) -> None:
    """Changes equal those of a search over all pairs."""
    assert changes(states) == [
        (a, b)
        for a in range(len(states))
        for b in range(a + 1, len(states))
        if None not in (states[a], states[b])
        and states[a] != states[b]
        and not any(states[a + 1 : b])
    ]


def examine(row: Sequence[State], own: int) -> dict[int, State]:
    """The states of the positions that the search for all changes examines."""
    states: dict[int, State] = {}
    search = turning_points(len(row), own)
    places = next(search)
    while True:
        assert places
        assert not set(places) & set(states)
        states |= {place: row[place] for place in places}
        try:
            places = search.send(states)
        except StopIteration:
            return states


@given(
    st.lists(st.sampled_from(["good", "bad", "worse", None]), min_size=1, max_size=40), st.data()
)
def test_a_change_is_between_neighbours_and_confirmed(row: list[str | None], data: Any) -> None:
    """Only unknown positions lie inside a change, and its neighbours are examined."""
    states = examine(row, data.draw(st.integers(0, len(row) - 1)))
    examined_states = [states.get(place) for place in range(len(row))]
    for before, after in changes(examined_states):
        assert (before, after) in changes(row)
        assert set(range(max(0, before - 1), min(len(row), after + 2))) <= set(states)
    # No change is reported only where the ends of every range agree.
    if not changes(examined_states):
        outer = [state for state in row if state is not None]
        assert not outer or outer[0] == outer[-1]


@given(st.integers(1, 500), st.integers(1, 500))
def test_one_change_takes_a_logarithm_of_the_positions(before: int, after: int) -> None:
    """One change takes the ends, halves and neighbours."""
    row = ["good"] * before + ["bad"] * after
    states = examine(row, before)
    assert changes([states.get(place) for place in range(len(row))]) == [(before - 1, before)]
    assert len(states) <= 5 + math.ceil(math.log2(len(row)))
