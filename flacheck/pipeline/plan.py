"""A plan: the cells of a run with the compilers and packages that they need. A value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flacheck.model import Attempt, Cell, Json, KeySet, Purpose, Question, RequestedCells
from flacheck.model.question import key_sets
from flacheck.packages.package import Package
from flacheck.toolchains.base import Choice


@dataclass(frozen=True)
class Plan:
    """The cells of a run with what compiling them takes.

    `name` is what the run is called and `selection` what narrowed it. `forms` maps
    (package, kernel) to (operator, form). `warnings` are for the user's eyes; `attempts` hold, by
    key, what is known of cells without a worker; `coverage` says what of a package was captured.
    `source` tells two plans of one name apart. `stale` are kernels that have changed since they
    were captured. `whole` are all cells of the question where this run compiles only a shard of
    them. `trust` is the user's word for the sources of kernels in it.
    """

    name: str
    cells: Sequence[Cell]
    choices: Mapping[str, Choice]
    packages: Mapping[str, Package] = field(default_factory=dict)
    forms: Mapping[tuple[str | None, str], tuple[str, str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    coverage: tuple[Json, ...] = ()
    selection: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    purpose: Purpose = Purpose.SCAN
    source: str = ""
    stale: tuple[Json, ...] = ()
    whole: Sequence[Cell] | None = None
    trust: bool = False

    def asks(self) -> tuple[Question, Mapping[tuple[str, str], KeySet]]:
        """What a run of this plan asks, with its cells by (toolchain, target)."""
        cells = self.cells
        if self.whole is not None:
            cells = self.whole
        sets = key_sets(cells)
        asked = [
            RequestedCells(*place, len(there.kernels), there.digest)
            for place, there in sets.items()
        ]
        question = Question(self.name, self.selection, tuple(asked), self.source)
        return question, sets

    def context(self) -> Json:
        """What a report needs to know of a run of this plan and no record holds."""
        return {
            "forms": [[*kernel, *form] for kernel, form in sorted(self.forms.items(), key=str)],
            "kernels": sorted({cell.kernel.name for cell in self.cells}),
            "coverage": list(self.coverage),
            "stale": list(self.stale),
        }
