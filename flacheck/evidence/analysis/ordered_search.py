"""Searches of an ordered sequence with unknown positions.

A search is a generator that yields positions, receives their states, and returns its result.
"""

from collections.abc import Generator, Hashable, Mapping, Sequence
from enum import Enum
from itertools import pairwise


class SearchAnswer(Enum):
    """The state of a position; UNKNOWN ones are skipped."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


Boundary = tuple[int, int]
# The state of a position; None is unknown.
State = Hashable | None


def boundary(count: int) -> Generator[int, SearchAnswer, Boundary | None]:
    """Search for two positions (near, far) between which the state changes.

    Near has the state of position 0, far the opposite one, and all positions between are unknown.
    The result is None if position 0 is unknown or the opposite state never occurs; only the last
    case reads all positions. If the state changes once, the search takes about 2 log₂(far)
    positions; if it changes several times, one of the changes is returned.

    Args:
        count: The number of positions.

    Yields:
        The position to examine.

    Returns:
        The positions (near, far), or None.
    """
    answers: dict[int, SearchAnswer] = {0: (yield 0)}
    if answers[0] is SearchAnswer.UNKNOWN:
        return None
    strides = [1 << power for power in range(count.bit_length()) if 1 << power < count]
    # At growing distances from 0, because most changes are near, then the last one, then all.
    for place in [*strides, count - 1, *range(1, count)]:
        if place not in answers:
            answers[place] = yield place
        if _opposite(answers, place):
            return (yield from _between(answers, place))
    return None


def _opposite(answers: dict[int, SearchAnswer], place: int) -> bool:
    return answers[place] is not SearchAnswer.UNKNOWN and answers[place] is not answers[0]


def _between(answers: dict[int, SearchAnswer], far: int) -> Generator[int, SearchAnswer, Boundary]:
    """Narrow the range of the change before `far`."""
    near = 0
    for place, answer in answers.items():
        if near < place < far and answer is answers[0]:
            near = place
    while open_ := [place for place in range(near + 1, far) if place not in answers]:
        middle = min(open_, key=lambda place: (abs(2 * place - near - far), place))
        answers[middle] = yield middle
        if _opposite(answers, middle):
            far = middle
        elif answers[middle] is answers[0]:
            near = middle
    return near, far


def changes(states: Sequence[Hashable | None]) -> list[Boundary]:
    """Return every (before, after) of different states with only unknowns (None) between."""
    positions = [place for place, state in enumerate(states) if state is not None]
    return [(a, b) for a, b in pairwise(positions) if states[a] != states[b]]


def turning_points(count: int, own: int) -> Generator[list[int], Mapping[int, State], None]:
    """Search for the positions between which the state changes, several at a time.

    It begins with both ends and `own`, halves every range whose ends differ, and then confirms
    each change by the next position on either side. A change inside a range whose ends agree is
    not found. One change takes about 5 + log₂(count) positions.

    Args:
        count: The number of positions.
        own: A position whose state is of interest.

    Yields:
        The positions to examine next; receives the states of all positions so far.
    """
    next_positions = sorted({0, own, count - 1})
    while next_positions:
        states = yield next_positions
        next_positions = _inside(states, count) or _beside(states, count)


def _inside(states: Mapping[int, State], count: int) -> list[int]:
    """Return the middle of each range that must hold a change.

    An end without a state is moved inwards by one position.
    """
    middles: list[int] = []
    known_positions = [place for place in sorted(states) if states[place] is not None]
    if not known_positions:
        return [place for place in range(count) if place not in states][:1]
    older = [place for place in range(known_positions[0]) if place not in states]
    newer = range(count - 1, known_positions[-1], -1)
    middles += older[:1] + [place for place in newer if place not in states][:1]
    for near, far in pairwise(known_positions):
        open_places = [place for place in range(near + 1, far) if place not in states]
        if open_places and states[near] != states[far]:
            middles.append(min(open_places, key=lambda place: abs(2 * place - near - far)))
    return sorted(middles)


def _beside(states: Mapping[int, State], count: int) -> list[int]:
    """Return the unexamined positions next to each change."""
    in_order = [states.get(place) for place in range(count)]
    places = set()
    for before, after in changes(in_order):
        places |= {before - 1, after + 1}
    return sorted(place for place in places if 0 <= place < count and place not in states)
