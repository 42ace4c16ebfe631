"""The failures of a scan that want a fallback, each with what a search has to know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flacheck.analysis.known_good import grouped, unserved
from flacheck.analysis.observed import Observed, observe
from flacheck.fallbacks.candidates import Space, space_of
from flacheck.fallbacks.constants import Constants, constants
from flacheck.inputs.planning import Plan
from flacheck.model import Cell, Record
from flacheck.tables import targets

# What the front end refuses before it looks at any setting.
REMOVED = ("FC101",)
# Up to here the compiler has not looked at num_warps or num_stages.
FRONT_END = ("import", "ast")


@dataclass(frozen=True)
class Failing:
    """A failing cell, `observed` as an analysis sees it, and the integer constexprs of its launch."""

    cell: Cell
    observed: Observed
    known: Constants

    @property
    def place(self) -> tuple[str, str]:
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
        """What may be changed: after a failure of the front end no option."""
        target = targets.find(self.cell.target)
        options = self.observed.stage not in FRONT_END
        return space_of(self.cell, self.known, target.warp_size, target.max_threads, options)


@dataclass(frozen=True)
class Asked:
    """All that a scan asked and learnt."""

    plan: Plan
    records: Sequence[Record]

    @cached_property
    def observed(self) -> list[Observed]:
        return observe(self.records)

    @cached_property
    def cells(self) -> Mapping[str, Cell]:
        return {
            cell.key: cell for cell in self.plan.cells if cell.stage == "compile" and cell.launch
        }

    @cached_property
    def alike(self) -> Mapping[tuple[Any, ...], list[Observed]]:
        """The same call of the same kernel, over all releases and targets."""
        return grouped((_call(each), each) for each in self.observed if each.key in self.cells)

    def elsewhere(self, failing: Failing) -> list[Observed]:
        """The same call on the other releases and targets that were asked."""
        return [each for each in self.alike[_call(failing.observed)] if each.place != failing.place]

    def failing(self) -> list[Failing]:
        """The untolerated failures, and those of launches that no configuration compiles; cells
        that were stopped before their last stage have none.
        """
        launches = grouped(
            (cell.kernel.name, cell.launch.args) for cell in self.cells.values() if cell.launch
        )
        wanted = [each for each in unserved(self.observed) if each.key in self.cells]
        return [
            Failing(cell, each, constants(cell, self.plan.packages, launches[cell.kernel.name]))
            for each in wanted
            for cell in [self.cells[each.key]]
            if cell.until is None
        ]

    def at(self, failing: Failing, places: Iterable[tuple[str, str]]) -> list[Cell]:
        """The failing cell first, then the same call at the other places."""
        others = {each.place: self.cells[each.key] for each in self.elsewhere(failing)}
        return [failing.cell, *(others[place] for place in places if place != failing.place)]


def _call(cell: Observed) -> tuple[Any, ...]:
    return cell.package, cell.kernel, cell.dtype, cell.size, cell.call
