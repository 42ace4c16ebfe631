"""The reduction loop: passes propose specimens, the order and the oracle accept or reject them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from flacheck.capabilities.repro.budget import BudgetSpent
from flacheck.capabilities.repro.kernel.candidates import cost, is_valid
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.oracle import Oracle, SearchEnded
from flacheck.capabilities.repro.passes.search import Pass, Probe, name_of

# Rounds end when nothing improves; this bounds the time of rounds that improve little.
ROUNDS = 8

# The number of improvements that may wait for the other releases, and the share of the cost below
# which none waits.
PENDING = 4
LARGE = 0.8

# A body of this many lines is read at a glance: the search for a smaller one ends after as many
# seconds without a line fewer as it took to reach this one, but at least after POLISHING. Compiles
# of a second each would otherwise go on for minutes about sizes and names.
SHORT = 10
POLISHING = 20.0


@dataclass(frozen=True)
class Step:
    """The new best specimen and the pass that found it."""

    best: Specimen
    by: str


def reduce(
    start: Specimen, first: Sequence[Pass], passes: Sequence[Pass], oracle: Oracle
) -> Iterator[Step]:
    """Yield each improvement.

    `first` run once, and their proposals are accepted even if their cost is higher; `passes` run
    round after round. The reduction ends early if the budget is spent, or if a short body lost no
    line for a while.
    """
    best = start
    rounds = [(first, True), *[(passes, False)] * ROUNDS]
    begin = oracle.elapsed_seconds
    oracle.search_end = _search_end(start, oracle, begin)
    try:
        for round_passes, ignore_cost in rounds:
            before = best
            for one in round_passes:
                for better in _improvements(one, best, oracle, ignore_cost):
                    if better.lines < best.lines:
                        oracle.search_end = _search_end(better, oracle, begin)
                    best = better
                    yield Step(best, name_of(one))
            if best == before and not ignore_cost:
                return
    except (BudgetSpent, SearchEnded):
        return
    finally:
        oracle.search_end = inf


def _search_end(best: Specimen, oracle: Oracle, begin: float) -> float:
    """Return the second of the command at which the search ends, unless a line is removed.

    `begin` is the second at which the search began.
    """
    if best.lines > SHORT:
        return inf
    elapsed = oracle.elapsed_seconds
    return elapsed + max(POLISHING, elapsed - begin)


def polish(best: Specimen, last: Pass, oracle: Oracle) -> Specimen:
    """Return the best specimen in the form that `last` proposes, if that still fails."""
    return next(_improvements(last, best, oracle, ignore_cost=True), best)


def _improvements(
    one: Pass, best: Specimen, oracle: Oracle, ignore_cost: bool = False
) -> Iterator[Specimen]:
    """Yield the improvements of one pass.

    The other releases reject few candidates that fail here, so they check only the last of several.
    If they reject it, the pass starts again from the last confirmed one, and they check each.
    """
    last_confirmed, waiting = best, 0
    for better in _search(one, best, oracle.fails, oracle, ignore_cost):
        best = better
        waiting += 1
        if waiting == PENDING or cost(best)[0] < LARGE * cost(last_confirmed)[0]:
            if not oracle(best):
                break
            yield best
            last_confirmed, waiting = best, 0
    else:
        if not waiting:
            return
        if oracle(best):
            yield best
            return
    yield from _search(one, last_confirmed, oracle, oracle, ignore_cost)


def _search(
    one: Pass, best: Specimen, holds: Callable[[Specimen], bool], oracle: Oracle, ignore_cost: bool
) -> Iterator[Specimen]:
    """Yield the proposals of a pass that are better, can compile, and satisfy `holds`.

    The budget is checked for each proposal, because cached results take time too. A proposal is
    accepted only once: with `ignore_cost` a pass could alternate between two forms for ever.
    """
    accepted_keys = {best.key}
    search = one(best)
    candidate = next(search, None)
    while candidate is not None:
        oracle.check()
        if isinstance(candidate, Probe):
            answer = oracle.hides(candidate.specimen)
        else:
            is_new = candidate.key not in accepted_keys
            is_better = is_new and (ignore_cost or cost(candidate) < cost(best))
            answer = is_better and is_valid(candidate) and holds(candidate)
            if answer:
                best = candidate
                accepted_keys.add(best.key)
                yield best
        try:
            candidate = search.send(answer)
        except StopIteration:
            return
