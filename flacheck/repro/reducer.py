"""The loop: every pass proposes, the order and the oracle dispose, until nothing smaller is found."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from flacheck.repro.oracle import BudgetSpent
from flacheck.repro.order import cost
from flacheck.repro.specimen import Specimen
from flacheck.repro.validity import is_valid

ROUNDS = 8
Holds = Callable[[Specimen], bool]


class Pass(Protocol):
    """One way of making a specimen smaller: a generator of candidates that is told of each whether it is the best
    specimen now. `forced` passes may propose what the order does not prefer (the form that is read)."""

    @property
    def name(self) -> str: ...

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]: ...


@dataclass(frozen=True)
class Step:
    """What is best now, and which pass found it."""

    best: Specimen
    by: str


def reduce(start: Specimen, first: Sequence[Pass], passes: Sequence[Pass], holds: Holds) -> Iterator[Step]:
    """Each improvement as it is found. `first` run once, and what they propose is taken whatever the order says;
    `passes` run round after round. Ends early when the oracle's budget is spent."""
    best = start
    try:
        for one in first:
            for better in _improved(one, best, holds, forced=True):
                yield Step(best := better, one.name)
        for _ in range(ROUNDS):
            before = best
            for one in passes:
                for better in _improved(one, best, holds):
                    yield Step(best := better, one.name)
            if best == before:
                return
    except BudgetSpent:
        return


def polished(best: Specimen, last: Pass, holds: Holds) -> Specimen:
    """The best specimen in the form that `last` gives it, where that still fails."""
    for improved in _improved(last, best, holds, forced=True):
        return improved
    return best


def _improved(one: Pass, best: Specimen, holds: Holds, forced: bool = False) -> Iterator[Specimen]:
    """The improvements that one pass finds; candidates that cannot compile are refused unseen."""
    search = one.search(best)
    candidate = next(search, None)
    while candidate is not None:
        better = candidate.key != best.key and (forced or cost(candidate) < cost(best))
        accepted = better and is_valid(candidate) and holds(candidate)
        if accepted:
            best = candidate
            yield best
        try:
            candidate = search.send(accepted)
        except StopIteration:
            return
