"""The settings that compile in place of failing cells, sought for all of them together.

Many failures are one: a conversion that a release cannot do on a GPU fails in a hundred kernels
alike, whatever their settings. So of each signature on a release and target a few kernels are
searched first; where all of them give up, the others need less to be given up too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flacheck.analysis.known_good import grouped
from flacheck.fallbacks.exploration import BRIEF, Exploration, Patience, explore
from flacheck.fallbacks.failing import Failing
from flacheck.fallbacks.oracle import Oracle
from flacheck.model import Cell
from flacheck.toolchains.base import Progress, silent

SCOUTS = 3
Explorations = dict[str, Exploration]


def explored(
    failures: Iterable[Failing],
    cells_of: Callable[[Failing], Sequence[Cell]],
    oracle: Oracle,
    budget: int,
    progress: Progress = silent,
) -> Explorations:
    """The exploration of each failing cell that any setting can matter to, by its key, each at its
    end.

    `cells_of` says where a candidate has to compile. One release after another, so that workers
    stay warm.
    """
    found: Explorations = {}
    by_release = grouped((each.place[0], each) for each in failures if each.adjustable)
    for toolchain, there in by_release.items():
        progress(
            f"looking for settings that compile in place of {len(there)} failing cells on {toolchain} …"
        )
        alike = grouped(((each.place, each.signature), each) for each in there)
        scouts = [each for group in alike.values() for each in _scouts(group)]
        scouted = _run(scouts, Patience(), cells_of, oracle, budget)
        rest = [
            [each for each in group if each.observed.key not in scouted] for group in alike.values()
        ]
        lost = [_lost(_scouts(group), scouted) for group in alike.values()]
        for patience in (Patience(), BRIEF):
            others = [
                each
                for group, is_lost in zip(rest, lost)
                if is_lost is (patience is BRIEF)
                for each in group
            ]
            found |= _run(others, patience, cells_of, oracle, budget)
        found |= scouted
    return found


def _scouts(group: Sequence[Failing]) -> list[Failing]:
    """The first failing cells of a few kernels."""
    firsts: dict[str, Failing] = {}
    for each in group:
        firsts.setdefault(each.observed.kernel, each)
    return list(firsts.values())[:SCOUTS]


def _lost(scouts: Sequence[Failing], scouted: Explorations) -> bool:
    return len(scouts) == SCOUTS and all(scouted[each.observed.key].hopeless for each in scouts)


def _run(
    failures: Sequence[Failing],
    patience: Patience,
    cells_of: Callable[[Failing], Sequence[Cell]],
    oracle: Oracle,
    budget: int,
) -> Explorations:
    ways = {
        each.observed.key: Exploration(cells_of(each), each.signature, each.space, budget, patience)
        for each in failures
    }
    explore(list(ways.values()), oracle)
    return ways
