"""Searching an ordered row of which some places give no answer: a search yields a place, is sent
its answer, and returns what it found."""

from collections.abc import Generator, Hashable, Sequence
from enum import Enum
from itertools import pairwise


class Answer(Enum):
    """What a place says. UNKNOWN is no answer: such a place is passed over and never judged."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


Boundary = tuple[int, int]


def boundary(count: int) -> Generator[int, Answer, Boundary | None]:
    """Two places (near, far) of 0 … count − 1 between which the answer turns from that of place 0
    to its opposite.

    near answers as place 0 does, far the other way, and every place between them is unknown. None
    when place 0 is unknown or no place says the opposite. Where the answer turns only once, asks
    about 2 log₂(far) places; otherwise the turn is one of several, and to know that there is none
    takes asking all.
    """
    answers: dict[int, Answer] = {0: (yield 0)}
    if answers[0] is Answer.UNKNOWN:
        return None
    strides = [1 << power for power in range(count.bit_length()) if 1 << power < count]
    # Ever further from 0, for most turns are near, then the last, then all.
    for place in [*strides, count - 1, *range(1, count)]:
        if place not in answers:
            answers[place] = yield place
        if _opposite(answers, place):
            return (yield from _between(answers, place))
    return None


def _opposite(answers: dict[int, Answer], place: int) -> bool:
    return answers[place] is not Answer.UNKNOWN and answers[place] is not answers[0]


def _between(answers: dict[int, Answer], far: int) -> Generator[int, Answer, Boundary]:
    """Close in on the turn before `far`."""
    near = max(place for place, answer in answers.items() if place < far and answer is answers[0])
    while open_ := [place for place in range(near + 1, far) if place not in answers]:
        middle = min(open_, key=lambda place: (abs(2 * place - near - far), place))
        answers[middle] = yield middle
        if _opposite(answers, middle):
            far = middle
        elif answers[middle] is answers[0]:
            near = middle
    return near, far


def changes(states: Sequence[Hashable | None]) -> list[Boundary]:
    """Every (before, after) of unlike states with only unknowns (None) between them, in order."""
    known = [place for place, state in enumerate(states) if state is not None]
    return [(a, b) for a, b in pairwise(known) if states[a] != states[b]]
