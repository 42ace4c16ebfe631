"""The loop: passes propose, the order and the oracle dispose, until nothing smaller is found."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flacheck.capabilities.repro.budget import BudgetSpent
from flacheck.capabilities.repro.kernel.candidates import cost, is_valid
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.oracle import Oracle
from flacheck.capabilities.repro.passes.search import Pass, Probe, name_of

# Rounds end by themselves when nothing gets better; this bounds the time of those that hardly do.
ROUNDS = 8

# Improvements that may wait for the other releases' word, and the share of the cost below which
# none does.
PENDING = 4
LARGE = 0.8


@dataclass(frozen=True)
class Step:
    """What is best now, and which pass found it."""

    best: Specimen
    by: str


def reduce(
    start: Specimen, first: Sequence[Pass], passes: Sequence[Pass], oracle: Oracle
) -> Iterator[Step]:
    """Each improvement as it is found. `first` run once, and what they propose is taken whatever
    the order says; `passes` run round after round. Ends early when nothing is left to spend."""
    best = start
    rounds = [(first, True), *[(passes, False)] * ROUNDS]
    try:
        for chosen, forced in rounds:
            before = best
            for one in chosen:
                for better in _improved(one, best, oracle, forced):
                    best = better
                    yield Step(best, name_of(one))
            if best == before and not forced:
                return
    except BudgetSpent:
        return


def polish(best: Specimen, last: Pass, oracle: Oracle) -> Specimen:
    """The best specimen in the form that `last` gives it, where that still fails."""
    return next(_improved(last, best, oracle, forced=True), best)


def _improved(
    one: Pass, best: Specimen, oracle: Oracle, forced: bool = False
) -> Iterator[Specimen]:
    """The improvements that one pass finds. Few of those that fail here are refused elsewhere, so
    the other releases are asked of the last of several; where they refuse it, the pass begins again
    from what they took, and asks them of each."""
    confirmed, waiting = best, 0
    for better in _taken(one, best, oracle.fails, oracle, forced):
        best = better
        waiting += 1
        if waiting == PENDING or cost(best)[0] < LARGE * cost(confirmed)[0]:
            if not oracle(best):
                break
            yield best
            confirmed, waiting = best, 0
    else:
        if not waiting:
            return
        if oracle(best):
            yield best
            return
    yield from _taken(one, confirmed, oracle, oracle, forced)


def _taken(
    one: Pass, best: Specimen, holds: Callable[[Specimen], bool], oracle: Oracle, forced: bool
) -> Iterator[Specimen]:
    """The proposals of a pass that are better, can compile, and of which `holds` is true. The
    budget is asked of each, for answers from memory take time too; none is taken twice, for a pass
    that is taken whatever the order says could go to and fro between two forms for ever."""
    taken = {best.key}
    search = one(best)
    candidate = next(search, None)
    while candidate is not None:
        oracle.check()
        if isinstance(candidate, Probe):
            answer = oracle.hides(candidate.specimen)
        else:
            better = candidate.key not in taken and (forced or cost(candidate) < cost(best))
            answer = better and is_valid(candidate) and holds(candidate)
            if answer:
                best = candidate
                taken.add(best.key)
                yield best
        try:
            candidate = search.send(answer)
        except StopIteration:
            return
