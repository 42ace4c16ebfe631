"""What else compiles in place of cells that no settings help: another dtype, another form, another
release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.observed import Observed
from flacheck.analysis.order import split
from flacheck.fallbacks import releases
from flacheck.fallbacks.candidates import DTYPE, OPTION, Candidate, marks_of
from flacheck.fallbacks.exploration import Exploration, compiled, explore
from flacheck.fallbacks.failing import REMOVED, Asked, Failing
from flacheck.fallbacks.oracle import Oracle
from flacheck.fallbacks.seen import Alternatives, Telling
from flacheck.model import Cell
from flacheck.tables import targets

Place = tuple[str, str]
# Of another dtype only the settings nearest to the failing ones are tried.
DTYPE_SHARE = 4
FORM, RELEASE = "form", "release"
FORMS = ("fused_recurrent", "chunk")


class Told:
    """Makes fallbacks of what was found: a dtype or a form is one step away."""

    def __init__(self, asked: Asked) -> None:
        self._telling = Telling(asked.observed)

    def with_settings(
        self, failing: Failing, found: Candidate, places: Sequence[Place]
    ) -> Fallback:
        """Other settings, and with them maybe another dtype."""
        return replace(
            self(failing, found.use, OPTION, places),
            steps=failing.space.rank(found)[1],
            marks=marks_of(found, failing.known),
            follows=found.follows,
            loss=found.loss if DTYPE not in found.use else None,
        )

    def __call__(
        self, failing: Failing, use: Mapping[str, Any], mark: str, places: Sequence[Place]
    ) -> Fallback:
        """A fallback one step away: a dtype, a form."""
        observed = failing.observed
        found = Fallback(
            observed.kernel, observed.package, *observed.place, self._telling(observed), use, 1.0
        )
        return replace(found, marks=dict.fromkeys(use, mark), places=tuple(places))


class Others:
    """Each answer is by the key of its failing cell; a cell without one has none."""

    def __init__(self, asked: Asked, oracle: Oracle, budget: int) -> None:
        self._asked, self._oracle, self._budget = asked, oracle, budget
        self._told = Told(asked)
        self._alternatives = Alternatives(asked.observed, asked.plan.forms)
        self._toolchains = list(dict.fromkeys(cell.toolchain for cell in asked.plan.cells))

    def dtypes(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Another dtype alone, wherever the call was asked or else just here; else the best one
        with other settings.
        """
        found: dict[str, Fallback] = {}
        for everywhere in (True, False):
            rest = [each for each in failures if each.observed.key not in found]
            alone = self._first(rest, partial(self._in_dtypes, everywhere))
            found |= {
                key: self._told(each, {DTYPE: alone[key]}, DTYPE, self._places(each, everywhere))
                for each in rest
                if (key := each.observed.key) in alone
            }
        return found | self._dtypes_and_settings(
            [each for each in failures if each.observed.key not in found]
        )

    def _in_dtypes(self, everywhere: bool, failing: Failing) -> Iterator[tuple[str, list[Cell]]]:
        """Each other dtype with what has to be compiled to know of it: nothing where the scan saw
        it work.
        """
        for dtype in other_dtypes(failing.cell.dtype, failing.cell.target):
            there = [
                each
                for each in self._calls(failing, everywhere)
                if dtype not in self._alternatives.dtypes(each)
            ]
            yield (
                dtype,
                [Candidate({DTYPE: dtype}).of(self._asked.cells[each.key]) for each in there],
            )

    def _dtypes_and_settings(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        best = [(each, other_dtypes(each.cell.dtype, each.cell.target)[:1]) for each in failures]
        ways = [
            (each, dtype, self._way_in(each, dtype)) for each, dtypes in best for dtype in dtypes
        ]
        explore([way for _, _, way in ways], self._oracle)
        return {
            each.observed.key: self._told.with_settings(
                each, _also(way.answer, dtype), [each.place]
            )
            for each, dtype, way in ways
            if way.answer
        }

    def _way_in(self, failing: Failing, dtype: str) -> Exploration:
        cell = Candidate({DTYPE: dtype}).of(failing.cell)
        return Exploration([cell], failing.signature, failing.space, self._budget // DTYPE_SHARE)

    def forms(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Another form of the operator of which the scan saw every kernel compile."""
        found: dict[str, Fallback] = {}
        for each, everywhere in product(failures, (True, False)):
            forms = set.intersection(
                *(set(self._alternatives.forms(one)) for one in self._calls(each, everywhere))
            )
            for form in [*(form for form in FORMS if form in forms), *sorted(forms)][:1]:
                new = self._told(each, {FORM: form}, FORM, self._places(each, everywhere))
                found.setdefault(each.observed.key, new)
        return found

    def releases(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Another release that compiles the very cell."""
        found = self._first(failures, self._on_releases)
        return {
            key: self._on(each, found[key])
            for each in failures
            if (key := each.observed.key) in found
        }

    def _on_releases(self, failing: Failing) -> Iterator[tuple[str, list[Cell]]]:
        for other in releases.nearest(
            failing.cell.toolchain, self._toolchains, self._asked.plan.choices
        ):
            yield other, [replace(failing.cell, toolchain=other)]

    def _on(self, failing: Failing, toolchain: str) -> Fallback:
        name, version = split(toolchain)
        found = self._told(failing, {name: version}, RELEASE, [(toolchain, failing.cell.target)])
        return replace(found, steps=float(releases.distance(failing.cell.toolchain, toolchain)))

    def _calls(self, failing: Failing, everywhere: bool) -> list[Observed]:
        """The failing cell, and the same call wherever it was asked and not refused whatever its
        settings.
        """
        others = self._asked.elsewhere(failing) if everywhere else []
        tried = (each for each in others if each.compiles or each.fails)
        return [failing.observed, *(each for each in tried if each.code not in REMOVED)]

    def _places(self, failing: Failing, everywhere: bool) -> list[Place]:
        return [each.place for each in self._calls(failing, everywhere)]

    def _first(
        self,
        failures: Sequence[Failing],
        ways: Callable[[Failing], Iterator[tuple[str, list[Cell]]]],
    ) -> dict[str, str]:
        """For each failing cell the first way of which every cell compiles; all failing cells a
        step at a time.
        """
        found: dict[str, str] = {}
        open_ = {each.observed.key: ways(each) for each in failures}
        while step := {key: way for key, each in open_.items() if (way := next(each, None))}:
            records = self._oracle([cell for _, cells in step.values() for cell in cells])
            found |= {
                key: name
                for key, (name, cells) in step.items()
                if all(compiled(records.get(cell.key)) for cell in cells)
            }
            open_ = {key: each for key, each in open_.items() if key in step and key not in found}
        return found


def other_dtypes(dtype: str | None, target: str) -> list[str]:
    """The dtypes to go to, best first: fp32 where the GPU has no bf16, bf16 otherwise; none for
    integers and fp8.
    """
    best = ("bf16", "fp32", "fp16") if targets.find(target).bf16 else ("fp32", "fp16")
    return [other for other in best if other != dtype] if dtype in ("bf16", "fp16", "fp32") else []


def _also(found: Candidate, dtype: str) -> Candidate:
    return replace(found, use={**found.use, DTYPE: dtype})
