"""The answer of a command: a verdict word, one sentence, a few points and a recommendation."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from flacheck.model.wire import JsonStruct, NotEmpty

# The most words of a sentence, and the most points below it.
MOST_WORDS, MOST_POINTS = 25, 5


class VerdictWord(str, Enum):
    """The first words of an answer."""

    YES = "Yes"
    # True with the restrictions that the points list.
    YES_BUT = "Yes, but"
    NO = "No"
    UNKNOWN = "Not known"


class Point(JsonStruct, frozen=True):
    """A fact that restricts an answer; `remedy` is the action for the reader, or empty."""

    text: NotEmpty
    remedy: str = ""


class Answer(JsonStruct, frozen=True, kw_only=True):
    """An answer in words, worst point first.

    `answer` is the sentence with its verdict word. `recommendation` is never empty: without a
    clean choice it names the best one. `next` are complete commands.
    """

    answer: NotEmpty
    verdict: VerdictWord
    points: Annotated[tuple[Point, ...], Meta(max_length=MOST_POINTS)] = ()
    recommendation: str = ""
    next: tuple[str, ...] = ()


def make_answer(
    verdict: VerdictWord,
    sentence: str,
    points: tuple[Point, ...] = (),
    recommendation: str = "",
    next: tuple[str, ...] = (),
) -> Answer:
    """Return an answer whose sentence begins with its verdict; later points are counted in one."""
    between = " " if verdict is VerdictWord.YES_BUT else ": "
    more = len(points) - MOST_POINTS
    if more > 0:
        last = Point(f"{more + 1} further points are listed below")
        points = (*points[: MOST_POINTS - 1], last)
    return Answer(
        answer=f"{verdict.value}{between}{sentence}",
        verdict=verdict,
        points=points,
        recommendation=recommendation,
        next=next,
    )
