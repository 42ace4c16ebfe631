"""The search: for each failure of a scan the nearest that compiles in its place, each compiled
before it is yielded.

First other settings, wherever the same call was asked: on every release and target where any
settings help. Where there are none, or no common ones, those of the failing cell's own release and
target. Else another dtype (fp32 where the GPU has no bf16, bf16 otherwise), another form of the
operator, another release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from flacheck.analysis.fallbacks import Fallback
from flacheck.fallbacks.candidates import Candidate
from flacheck.fallbacks.exploration import BUDGET
from flacheck.fallbacks.failing import Asked, Failing
from flacheck.fallbacks.oracle import Oracle
from flacheck.fallbacks.others import Others, Told
from flacheck.fallbacks.ranking import order
from flacheck.fallbacks.settings import explored
from flacheck.inputs.planning import Plan
from flacheck.model import Record
from flacheck.toolchains.base import Progress, silent


def search(
    plan: Plan,
    records: Iterable[Record],
    oracle: Oracle,
    budget: int = BUDGET,
    progress: Progress = silent,
) -> Iterator[Fallback]:
    """The fallbacks of a scan's failures, release by release, target by target; `budget` candidates
    for each.
    """
    asked = Asked(plan, list(records))
    failures = sorted(asked.failing(), key=lambda each: order(each.observed))
    if failures:
        yield from _Search(asked, oracle, budget, progress).fallbacks(failures)


class _Search:
    def __init__(self, asked: Asked, oracle: Oracle, budget: int, progress: Progress) -> None:
        self._asked, self._oracle, self._budget, self._progress = asked, oracle, budget, progress
        self._told = Told(asked)

    def fallbacks(self, failures: Sequence[Failing]) -> Iterator[Fallback]:
        here = self._settings(failures, lambda each: [each.place])
        there = {
            each.observed.key: self._feasible(each, here)
            for each in failures
            if each.observed.key in here
        }
        shared = [each for each in failures if len(there.get(each.observed.key, ())) > 1]
        common = self._settings(shared, lambda each: there[each.observed.key])
        others = self._others([each for each in failures if each.observed.key not in here])
        for each in failures:
            key = each.observed.key
            if key in common:
                yield self._told.with_settings(each, common[key], there[key])
            elif key in here:
                yield self._told.with_settings(each, here[key], [each.place])
            else:
                yield from others[key]

    def _settings(
        self, failures: Sequence[Failing], places: Callable[[Failing], Sequence[tuple[str, str]]]
    ) -> dict[str, Candidate]:
        """The nearest settings that compile at those places, by the key of the failing cell."""
        ways = explored(
            failures,
            lambda each: self._asked.at(each, places(each)),
            self._oracle,
            self._budget,
            self._progress,
        )
        return {key: way.answer for key, way in ways.items() if way.answer}

    def _feasible(self, failing: Failing, here: dict[str, Candidate]) -> list[tuple[str, str]]:
        """The failing place, and the others where the call compiles as it is or with some settings."""
        others = self._asked.elsewhere(failing)
        return [
            failing.place,
            *(each.place for each in others if each.compiles or each.key in here),
        ]

    def _others(self, failures: Sequence[Failing]) -> dict[str, list[Fallback]]:
        """Another dtype, form and release for cells that no settings help, by key."""
        if failures:
            self._progress(
                f"looking for another dtype, form or release for {len(failures)} failing cells …"
            )
        others = Others(self._asked, self._oracle, self._budget)
        adjustable = [each for each in failures if each.adjustable]
        ways = (others.dtypes(adjustable), others.forms(adjustable), others.releases(failures))
        keys = [each.observed.key for each in failures]
        return {key: [way[key] for way in ways if key in way] for key in keys}
