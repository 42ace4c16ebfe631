"""The search: for each failure of a scan the nearest that compiles in its place, each compiled before it is yielded.

First other settings, wherever the same call was asked: on every release and target where any settings help. Where there
are none, or no common ones, those of the failing cell's own release and target. Else another dtype (fp32 where the
GPU has no bf16, bf16 otherwise), another form of the operator, another release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flacheck import targets
from flacheck.analysis.alternatives import Alternatives
from flacheck.analysis.fallbacks import Fallback, Telling, order
from flacheck.analysis.order import split
from flacheck.fallbacks import releases
from flacheck.fallbacks.candidates import DTYPE, Candidate, marks_of
from flacheck.fallbacks.exploration import BUDGET, Exploration, compiled
from flacheck.fallbacks.failing import Asked, Failing
from flacheck.fallbacks.oracle import Oracle
from flacheck.model import Cell, Record
from flacheck.planning import Plan
from flacheck.toolchains.base import Progress, silent

# Compiles under way at once over all explorations: enough to keep workers busy, few enough to waste none.
LANES = 8
# Of another dtype only the settings nearest to the failing ones are tried.
DTYPE_SHARE = 4
FORM, RELEASE = "form", "release"
FORMS = ("fused_recurrent", "chunk")


def search(
    plan: Plan, records: Iterable[Record], oracle: Oracle, budget: int = BUDGET, progress: Progress = silent
) -> Iterator[Fallback]:
    """The fallbacks of a scan's failures, release by release, target by target; `budget` candidates for each."""
    asked = Asked(plan, list(records))
    failures = sorted(asked.failing(), key=lambda each: order(each.observed))
    if failures:
        yield from _Search(asked, oracle, budget, progress).fallbacks(failures)


class _Search:
    def __init__(self, asked: Asked, oracle: Oracle, budget: int, progress: Progress) -> None:
        self._asked, self._oracle, self._budget, self._progress = asked, oracle, budget, progress
        self._telling = Telling(asked.observed)
        self._alternatives = Alternatives(asked.observed, asked.plan.forms)
        self._toolchains = list(dict.fromkeys(cell.toolchain for cell in asked.plan.cells))

    def fallbacks(self, failures: Sequence[Failing]) -> Iterator[Fallback]:
        here = self._settings(failures, lambda each: [each.place])
        there = {each.observed.key: self._feasible(each, here) for each in failures if each.observed.key in here}
        shared = [each for each in failures if len(there.get(each.observed.key, ())) > 1]
        common = self._settings(shared, lambda each: there[each.observed.key])
        others = self._others([each for each in failures if each.observed.key not in here])
        for each in failures:
            key = each.observed.key
            if key in common:
                yield self._with_settings(each, common[key], there[key])
            elif key in here:
                yield self._with_settings(each, here[key], [each.place])
            else:
                yield from others[key]

    def _settings(
        self, failures: Sequence[Failing], places: Callable[[Failing], Sequence[tuple[str, str]]]
    ) -> dict[str, Candidate]:
        """The nearest settings that compile at those places, by the key of the failing cell."""
        ways = {
            each.observed.key: Exploration(self._asked.at(each, places(each)), each.signature, each.space, self._budget)
            for each in failures
            if each.adjustable
        }
        for toolchain in dict.fromkeys(way.cells[0].toolchain for way in ways.values()):
            there = [way for way in ways.values() if way.cells[0].toolchain == toolchain]
            self._progress(f"looking for settings that compile in place of {len(there)} failing cells on {toolchain} …")
            explore(there, self._oracle)
        return {key: way.answer for key, way in ways.items() if way.answer}

    def _feasible(self, failing: Failing, here: dict[str, Candidate]) -> list[tuple[str, str]]:
        """The failing place, and the others where the call compiles as it is or with some settings."""
        others = self._asked.elsewhere(failing)
        return [failing.place, *(each.place for each in others if each.compiles or each.key in here)]

    def _others(self, failures: Sequence[Failing]) -> dict[str, list[Fallback]]:
        """Another dtype, form and release for cells that no settings help, by key."""
        if failures:
            self._progress(f"looking for another dtype, form or release for {len(failures)} failing cells …")
        adjustable = [each for each in failures if each.adjustable]
        ways = (self._dtypes(adjustable), self._forms(adjustable), self._releases(failures))
        return {each.observed.key: [way[each.observed.key] for way in ways if each.observed.key in way]
                for each in failures}  # fmt: skip

    def _dtypes(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Another dtype alone, as the scan saw it or compiled now; else the best one with the nearest settings."""
        alone = self._first(failures, self._in_dtypes)
        found = {key: self._fallback(each, {DTYPE: alone[key]}, 1.0, DTYPE)
                 for each in failures if (key := each.observed.key) in alone}  # fmt: skip
        rest = [(each, dtypes[0]) for each in failures if each.observed.key not in alone
                if (dtypes := other_dtypes(each.cell.dtype, each.cell.target))]  # fmt: skip
        ways = [(each, dtype, self._way_in(each, dtype)) for each, dtype in rest]
        explore([way for _, _, way in ways], self._oracle)
        for each, dtype, way in ways:
            if way.answer:
                use = {**way.answer.use, DTYPE: dtype}
                found[each.observed.key] = self._with_settings(each, replace(way.answer, use=use), [each.place])
        return found

    def _in_dtypes(self, failing: Failing) -> Iterator[tuple[str, Cell | None]]:
        seen = self._alternatives.dtypes(failing.observed)
        for dtype in other_dtypes(failing.cell.dtype, failing.cell.target):
            yield dtype, None if dtype in seen else Candidate({DTYPE: dtype}).of(failing.cell)

    def _way_in(self, failing: Failing, dtype: str) -> Exploration:
        cell = Candidate({DTYPE: dtype}).of(failing.cell)
        return Exploration([cell], failing.signature, failing.space, self._budget // DTYPE_SHARE)

    def _forms(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Another form of the operator of which the scan saw every kernel compile."""
        found = {}
        for each in failures:
            forms = self._alternatives.forms(each.observed)
            for form in [*(form for form in FORMS if form in forms), *forms][:1]:
                found[each.observed.key] = self._fallback(each, {FORM: form}, 1.0, FORM)
        return found

    def _releases(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Another release that compiles the very cell."""
        found = self._first(failures, self._on_releases)
        return {each.observed.key: self._on(each, found[each.observed.key])
                for each in failures if each.observed.key in found}  # fmt: skip

    def _on_releases(self, failing: Failing) -> Iterator[tuple[str, Cell]]:
        for other in releases.nearest(failing.cell.toolchain, self._toolchains, self._asked.plan.choices):
            yield other, replace(failing.cell, toolchain=other)

    def _on(self, failing: Failing, toolchain: str) -> Fallback:
        name, version = split(toolchain)
        steps = float(releases.distance(failing.cell.toolchain, toolchain))
        found = self._fallback(failing, {name: version}, steps, RELEASE)
        return replace(found, places=((toolchain, failing.cell.target),))

    def _first(
        self, failures: Sequence[Failing], ways: Callable[[Failing], Iterator[tuple[str, Cell | None]]]
    ) -> dict[str, str]:
        """For each failing cell the first way that compiles, or needs no compile; all cells a step at a time."""
        found: dict[str, str] = {}
        open_ = {each.observed.key: ways(each) for each in failures}
        while step := {key: way for key, each in open_.items() if (way := next(each, None))}:
            records = self._oracle([cell for _, cell in step.values() if cell])
            good = {key: name for key, (name, cell) in step.items() if not cell or compiled(records.get(cell.key))}
            found |= good
            open_ = {key: each for key, each in open_.items() if key in step and key not in good}
        return found

    def _with_settings(self, failing: Failing, found: Candidate, places: Sequence[tuple[str, str]]) -> Fallback:
        steps = failing.space.rank(found)[1]
        return replace(
            self._fallback(failing, found.use, steps),
            marks=marks_of(found, failing.known),
            follows=found.follows,
            loss=found.loss if DTYPE not in found.use else None,
            places=tuple(places),
        )

    def _fallback(self, failing: Failing, use: Mapping[str, Any], steps: float, mark: str = "") -> Fallback:
        observed = failing.observed
        found = Fallback(observed.kernel, observed.package, *observed.place, self._telling(observed), use, steps)
        return replace(found, marks=dict.fromkeys(use, mark), places=(failing.place,))


def explore(ways: Sequence[Exploration], oracle: Oracle) -> None:
    """Follow explorations to their ends, all at once, so that workers stay busy and warm."""
    while active := [way for way in ways if not way.done]:
        width = max(1, LANES // len(active))
        wanted = {cell.key: cell for way in active for cell in way.wanted(width)}
        records = oracle(list(wanted.values())) if wanted else {}
        for way in active:
            way.learn(records)


def other_dtypes(dtype: str | None, target: str) -> list[str]:
    """The dtypes to go to, best first: fp32 where the GPU has no bf16, bf16 otherwise; none for integers and fp8."""
    best = ("bf16", "fp32", "fp16") if targets.find(target).bf16 else ("fp32", "fp16")
    return [other for other in best if other != dtype] if dtype in ("bf16", "fp16", "fp32") else []
