"""The failures of a scan that want a fallback, each with what a search has to know of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.observation import ObservedCell, observe
from flacheck.analysis.standing import configurations, find_blocking_failures
from flacheck.analysis.untested_cells import separate_untested
from flacheck.fallbacks.candidates import DTYPE, OPTION, Candidate, Space, marks_of, space_of
from flacheck.fallbacks.constexprs import Constexprs, constexprs
from flacheck.fallbacks.seen import Telling
from flacheck.model import Cell, Record
from flacheck.pipeline.plan import Plan
from flacheck.tables import targets

# What the front end refuses before it looks at any setting.
REMOVED = ("FC101",)
# Up to here the compiler has not looked at num_warps or num_stages.
FRONT_END = ("import", "ast")
Place = tuple[str, str]


@dataclass(frozen=True)
class Failing:
    """A failing cell, `observed` as an analysis sees it, and the constexprs of its launch."""

    cell: Cell
    observed: ObservedCell
    known: Constexprs

    @property
    def key(self) -> str:
        return self.observed.key

    @property
    def place(self) -> Place:
        return self.observed.place

    @property
    def signature(self) -> str | None:
        return self.observed.signature

    @property
    def adjustable(self) -> bool:
        """Whether any setting can matter."""
        return self.observed.code not in REMOVED and self.observed.stage != "import"

    @cached_property
    def space(self) -> Space:
        """What may be changed."""
        target = targets.find(self.cell.target)
        options = self.observed.stage not in FRONT_END
        return space_of(self.cell, self.known, target.warp_size, target.max_threads, options)


@dataclass(frozen=True)
class Scanned:
    """All that a scan asked and learnt."""

    plan: Plan
    records: Sequence[Record]

    @cached_property
    def observed(self) -> list[ObservedCell]:
        _, key_sets = self.plan.asks()
        known: dict[str, str] = {}
        for keys in key_sets.values():
            known.update(configurations(keys, self.records))
        return observe(self.records, configurations=known)

    @cached_property
    def cells(self) -> Mapping[str, Cell]:
        return {
            cell.key: cell for cell in self.plan.cells if cell.stage == "compile" and cell.launch
        }

    @cached_property
    def _alike(self) -> Mapping[tuple[Any, ...], list[ObservedCell]]:
        """The same call of the same kernel, over all releases and targets."""
        return group_by_key((_call(each), each) for each in self.observed if each.key in self.cells)

    @cached_property
    def _telling(self) -> Telling:
        return Telling(self.observed)

    def elsewhere(self, failing: Failing) -> list[ObservedCell]:
        """The same call on the other releases and targets that were asked."""
        alike = self._alike[_call(failing.observed)]
        return [each for each in alike if each.place != failing.place]

    def failing(self) -> list[Failing]:
        """The untolerated failures, and those of launches that no configuration compiles; cells
        that were stopped before their last stage have none."""
        launches = group_by_key(
            (cell.kernel.name, cell.launch.args) for cell in self.cells.values() if cell.launch
        )
        failures = []
        # Of arguments that flacheck invented nobody needs a fallback.
        counted, _ = separate_untested(self.observed)
        for observed in find_blocking_failures(counted):
            cell = self.cells.get(observed.key)
            if cell and cell.until is None:
                known = constexprs(cell, self.plan.packages, launches[cell.kernel.name])
                failures.append(Failing(cell, observed, known))
        return failures

    def at(self, failing: Failing, places: Iterable[Place]) -> list[Cell]:
        """The failing cell first, then the same call at the other places."""
        others = {each.place: self.cells[each.key] for each in self.elsewhere(failing)}
        return [failing.cell, *(others[place] for place in places if place != failing.place)]

    def fallback(
        self,
        failing: Failing,
        use: Mapping[str, Any],
        mark: str,
        places: Iterable[Place],
        steps: float = 1.0,
    ) -> Fallback:
        """Something else altogether in place of a failing cell: a dtype, a form, a release."""
        observed = failing.observed
        return Fallback(
            kernel=observed.kernel,
            package=observed.package,
            toolchain=observed.toolchain,
            target=observed.target,
            failing=self._telling(observed),
            use=use,
            steps=steps,
            marks=dict.fromkeys(use, mark),
            places=tuple(places),
            key=failing.key,
        )

    def other_settings(
        self, failing: Failing, candidate: Candidate, places: Iterable[Place]
    ) -> Fallback:
        """Other settings, and with them maybe another dtype."""
        # The estimate compares settings of one dtype.
        loss = None if DTYPE in candidate.use else candidate.loss
        steps = failing.space.rank(candidate)[1]
        return replace(
            self.fallback(failing, candidate.use, OPTION, places, steps),
            loss=loss,
            marks=marks_of(candidate, failing.known),
            follows=candidate.follows,
        )


def _call(cell: ObservedCell) -> tuple[Any, ...]:
    return cell.package, cell.kernel, cell.dtype, cell.size, cell.call
