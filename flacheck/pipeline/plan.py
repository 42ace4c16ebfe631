"""A plan: the cells of a run with the compilers and packages that they need. A value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from flacheck.model import (
    Attempt,
    Cell,
    Json,
    KeySet,
    LaunchExtent,
    Purpose,
    Question,
    RequestedCells,
    canonical,
)
from flacheck.model.coverage import PackageCoverage
from flacheck.model.question import key_sets
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs.expand import tuned_names
from flacheck.toolchains.base import Choice


@dataclass(frozen=True)
class Plan:
    """The cells of a run with their compilers and packages.

    Attributes:
        name: The name of the run.
        cells: The cells to compile.
        choices: The compilers by identity.
        packages: The packages by specification.
        forms: (operator, form) by (package, kernel).
        warnings: Messages for the user.
        attempts: Attempts of cells that need no worker, by key.
        coverage: The recorded and the missed kernels of each captured package.
        selection: The selection that narrowed the question.
        purpose: The purpose of the run; only scans answer a question.
        source: The path that distinguishes plans of one name.
        stale: Kernels that changed since their capture.
        whole: All cells of the question, if this run compiles a shard.
        extents: The launches of the question, with all configurations, by (toolchain, target).
        trust: True if the user vouches for the sources of kernels.
        usual_keys: The cells of the usual configurations of recorded launches, which are compiled
            first; empty where nothing was chosen among configurations.
        configs: The choices of configurations of recorded launches: `usual`, `edges`, `own`.
        size_sources: The sources of the sizes of a driver's calls, by (kernel, canonical
            arguments) of their launches.
    """

    name: str
    cells: Sequence[Cell]
    choices: Mapping[str, Choice]
    packages: Mapping[str, Package] = field(default_factory=dict)
    forms: Mapping[tuple[str | None, str], tuple[str, str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    coverage: tuple[PackageCoverage, ...] = ()
    selection: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    purpose: Purpose = Purpose.SCAN
    source: str = ""
    stale: tuple[Json, ...] = ()
    whole: Sequence[Cell] | None = None
    extents: Mapping[tuple[str, str], LaunchExtent] = field(default_factory=dict)
    trust: bool = False
    usual_keys: frozenset[str] = frozenset()
    configs: frozenset[str] = frozenset()
    size_sources: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def steps(self) -> Sequence[Sequence[Cell]]:
        """The cells in the order of their compiles: the usual ones, then the others."""
        usual_cells = [cell for cell in self.cells if cell.key in self.usual_keys]
        others = [cell for cell in self.cells if cell.key not in self.usual_keys]
        return [cells for cells in (usual_cells, others) if cells]

    def sizes_from(self, cell: Cell) -> str | None:
        """Return the source of the sizes of a cell's launch; None for a program's own launch."""
        if cell.launch is None:
            return None
        tuned_parameters = tuned_names(cell.configs)
        arguments = {}
        for name, value in cell.launch.args.items():
            if name not in tuned_parameters:
                arguments[name] = value
        return self.size_sources.get((cell.kernel.name, canonical(arguments)))

    def narrow_to(self, keys: Collection[str]) -> Plan:
        """Return the plan with only these cells, and with the extents of all cells.

        The extent of a toolchain and target names the kernels that lost all cells.
        """
        cells = [cell for cell in self.cells if cell.key in keys]
        kernels: dict[tuple[str, str], set[str]] = {}
        for cell in cells:
            kernels.setdefault((cell.toolchain, cell.target), set()).add(cell.kernel.name)
        extents = {}
        for place, extent in self.extents.items():
            other_kernels = set(extent.launches) - kernels.get(place, set())
            missing_kernels = sorted({*extent.missing_kernels, *other_kernels})
            extents[place] = structs.replace(extent, missing_kernels=tuple(missing_kernels))
        return replace(self, cells=cells, extents=extents)

    def asks(self) -> tuple[Question, Mapping[tuple[str, str], KeySet]]:
        """Return the question of a run, with its key sets by (toolchain, target)."""
        cells = self.cells
        if self.whole is not None:
            cells = self.whole
        sets = key_sets(cells, self.extents)
        requested_cells = [
            RequestedCells(*place, len(there.kernels), there.digest)
            for place, there in sets.items()
        ]
        question = Question(self.name, self.selection, tuple(requested_cells), self.source)
        return question, sets

    def context(self) -> Json:
        """Return the facts about a run that reports need and records lack."""
        return {
            "forms": [[*kernel, *form] for kernel, form in sorted(self.forms.items(), key=str)],
            "kernels": sorted({cell.kernel.name for cell in self.cells}),
            "coverage": list(self.coverage),
            "stale": list(self.stale),
        }
