"""The loop: every pass proposes, the order and the judge dispose, until nothing smaller is found."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from flacheck.repro.kernel.order import cost
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.validity import is_valid
from flacheck.repro.oracle import BudgetSpent

ROUNDS = 8

# Improvements that may wait for the other releases' word, and the share of the cost below which
# none does.
PENDING = 4
LARGE = 0.8


@dataclass(frozen=True)
class Probe:
    """A question and no proposal: whether anything in this specimen could fail. It is never taken."""

    specimen: Specimen


class Pass(Protocol):
    """One way of making a specimen smaller: a generator of candidates that is told of each whether
    it is the best specimen now, and of each probe whether it fails at all.
    """

    @property
    def name(self) -> str: ...

    def search(self, best: Specimen) -> Generator[Specimen | Probe, bool, None]: ...


class Judge(Protocol):
    """What decides, the oracle in earnest. Called, it says whether a specimen fails as it must and
    compiles where it must; `fails` asks for the first half only; `hides` is false for what
    compiles, so that no part of it is worth a question.
    """

    def __call__(self, specimen: Specimen) -> bool: ...

    def fails(self, specimen: Specimen) -> bool: ...

    def hides(self, specimen: Specimen) -> bool: ...


@dataclass(frozen=True)
class Step:
    """What is best now, and which pass found it."""

    best: Specimen
    by: str


def reduce(
    start: Specimen, first: Sequence[Pass], passes: Sequence[Pass], judge: Judge
) -> Iterator[Step]:
    """Each improvement as it is found. `first` run once, and what they propose is taken whatever
    the order says; `passes` run round after round. Ends early when the oracle's budget is spent.
    """
    best = start
    try:
        for one in first:
            for better in _improved(one, best, judge, forced=True):
                yield Step(best := better, one.name)
        for _ in range(ROUNDS):
            before = best
            for one in passes:
                for better in _improved(one, best, judge):
                    yield Step(best := better, one.name)
            if best == before:
                return
    except BudgetSpent:
        return


def polished(best: Specimen, last: Pass, judge: Judge) -> Specimen:
    """The best specimen in the form that `last` gives it, where that still fails."""
    for improved in _improved(last, best, judge, forced=True):
        return improved
    return best


def _improved(one: Pass, best: Specimen, judge: Judge, forced: bool = False) -> Iterator[Specimen]:
    """The improvements that one pass finds.

    Few of those that fail here are refused elsewhere, so the other releases are asked of the last
    of several; where they refuse it, the pass begins again from what they took, and asks them of
    each.
    """
    confirmed, waiting = best, 0
    for better in _taken(one, best, judge, judge.fails, forced):
        waiting += 1
        if waiting == PENDING or cost(better)[0] < LARGE * cost(confirmed)[0]:
            if not judge(better):
                break
            yield (confirmed := better)
            waiting = 0
        best = better
    else:
        if not waiting:
            return
        if judge(best):
            yield best
            return
    yield from _taken(one, confirmed, judge, judge, forced)


def _taken(
    one: Pass, best: Specimen, judge: Judge, holds: Callable[[Specimen], bool], forced: bool
) -> Iterator[Specimen]:
    """What `holds` says of a pass's proposals; candidates that cannot compile are refused unseen."""
    search = one.search(best)
    candidate = next(search, None)
    while candidate is not None:
        if isinstance(candidate, Probe):
            answer = judge.hides(candidate.specimen)
        else:
            better = candidate.key != best.key and (forced or cost(candidate) < cost(best))
            answer = better and is_valid(candidate) and holds(candidate)
            if answer:
                best = candidate
                yield best
        try:
            candidate = search.send(answer)
        except StopIteration:
            return
