"""The failures of a scan that need a fallback, with the facts that a search uses."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from flacheck.evidence.analysis.alternatives import configurations
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.launch_evidence import find_blocking_failures
from flacheck.evidence.analysis.observation import ObservedCell, observe
from flacheck.evidence.analysis.untested_cells import separate_untested
from flacheck.model import Cell, Record
from flacheck.pipeline.fallbacks.alternatives import Distinctions
from flacheck.pipeline.fallbacks.candidates import (
    DTYPE,
    OPTION,
    Candidate,
    Space,
    marks_of,
    space_of,
)
from flacheck.pipeline.fallbacks.constexprs import Constexprs, constexprs
from flacheck.pipeline.plan import Plan
from flacheck.tables import targets

# The front end rejects these features under all settings.
REMOVED_FEATURES = ("FC101",)
# Before the end of these stages the compiler does not read num_warps or num_stages.
FRONT_END = ("import", "ast")
Place = tuple[str, str]


@dataclass(frozen=True)
class Failing:
    """A failing cell, its observation for analyses, and the constexprs of its launch."""

    cell: Cell
    observation: ObservedCell
    constexprs: Constexprs

    @property
    def key(self) -> str:
        return self.observation.key

    @property
    def place(self) -> Place:
        return self.observation.place

    @property
    def signature(self) -> str | None:
        return self.observation.signature

    @property
    def adjustable(self) -> bool:
        """True if a setting can matter."""
        return self.observation.code not in REMOVED_FEATURES and self.observation.stage != "import"

    @cached_property
    def space(self) -> Space:
        """The settings that may change."""
        target = targets.find(self.cell.target)
        options = self.observation.stage not in FRONT_END
        return space_of(self.cell, self.constexprs, target.warp_size, target.max_threads, options)


@dataclass(frozen=True)
class ScanResult:
    """The plan of a scan with its records."""

    plan: Plan
    records: Sequence[Record]

    @cached_property
    def observations(self) -> list[ObservedCell]:
        _, key_sets = self.plan.asks()
        configuration_of: dict[str, str] = {}
        for keys in key_sets.values():
            configuration_of.update(configurations(keys, self.records))
        return observe(self.records, configurations=configuration_of)

    @cached_property
    def cells(self) -> Mapping[str, Cell]:
        """The cells with launches that are compiled, by key."""
        cells = {}
        for cell in self.plan.cells:
            if cell.stage == "compile" and cell.launch:
                cells[cell.key] = cell
        return cells

    @cached_property
    def _observations_of_call(self) -> Mapping[tuple[Any, ...], list[ObservedCell]]:
        """The observations of each call of a kernel, over all releases and targets."""
        by_call: defaultdict[tuple[Any, ...], list[ObservedCell]] = defaultdict(list)
        for observation in self.observations:
            if observation.key in self.cells:
                by_call[_call(observation)].append(observation)
        return by_call

    @cached_property
    def _distinctions(self) -> Distinctions:
        return Distinctions(self.observations)

    def elsewhere(self, failing: Failing) -> list[ObservedCell]:
        """Return the observations of the call on the scan's other releases and targets."""
        observations = self._observations_of_call[_call(failing.observation)]
        return [other for other in observations if other.place != failing.place]

    def failing(self) -> list[Failing]:
        """Return the untolerated failures, and those of launches without a good configuration.

        Cells that stop before their last stage are left out.
        """
        launches: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for cell in self.cells.values():
            if cell.launch:
                launches[cell.kernel.name].append(cell.launch.args)
        failures = []
        # Arguments that flacheck invented need no fallback.
        counted_observations, _ = separate_untested(self.observations)
        for observation in find_blocking_failures(counted_observations):
            failed = self.cells.get(observation.key)
            if failed and failed.until is None:
                own = constexprs(failed, self.plan.packages, launches[failed.kernel.name])
                failures.append(Failing(failed, observation, own))
        return failures

    def at(self, failing: Failing, places: Iterable[Place]) -> list[Cell]:
        """Return the failing cell, then the cells of its call at the other places."""
        others = {other.place: self.cells[other.key] for other in self.elsewhere(failing)}
        cells = [failing.cell]
        for place in places:
            if place != failing.place:
                cells.append(others[place])
        return cells

    def fallback(
        self,
        failing: Failing,
        use: Mapping[str, Any],
        mark: str,
        places: Iterable[Place],
        steps: float = 1.0,
    ) -> Fallback:
        """Return a fallback to another dtype, form or release."""
        observation = failing.observation
        return Fallback(
            kernel=observation.kernel,
            package=observation.package,
            toolchain=observation.toolchain,
            target=observation.target,
            failing=self._distinctions.of(observation),
            use=use,
            steps=steps,
            marks=dict.fromkeys(use, mark),
            places=tuple(places),
            key=failing.key,
        )

    def other_settings(
        self, failing: Failing, candidate: Candidate, places: Iterable[Place]
    ) -> Fallback:
        """Return a fallback to other settings, possibly with another dtype."""
        # The estimate compares settings of one dtype.
        loss = None if DTYPE in candidate.use else candidate.loss
        steps = failing.space.rank(candidate)[1]
        return replace(
            self.fallback(failing, candidate.use, OPTION, places, steps),
            loss=loss,
            marks=marks_of(candidate, failing.constexprs),
            follows=candidate.follows,
        )


def _call(observation: ObservedCell) -> tuple[Any, ...]:
    return (
        observation.package,
        observation.kernel,
        observation.dtype,
        observation.size,
        observation.call,
    )
