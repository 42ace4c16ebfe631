"""A plan: the cells of a run with the compilers and packages that they need. A value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flacheck.model import Attempt, Cell, Json, Purpose, Question
from flacheck.packages.package import Package
from flacheck.toolchains.base import Choice


@dataclass(frozen=True)
class Plan:
    """The cells of a run with what compiling them takes.

    `name` is what the run is called and `selection` what narrowed it. `forms` maps
    (package, kernel) to (operator, form). `warnings` are for the user's eyes; `attempts` hold, by
    key, what is known of cells without a worker; `coverage` says what of a package was captured.
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

    def question(self) -> Question:
        """What a run of this plan asks."""
        return Question.of(self.name, self.selection, self.cells)

    def context(self) -> Json:
        """What a report needs to know of a run of this plan and no record holds."""
        return {
            "forms": [[*kernel, *form] for kernel, form in sorted(self.forms.items(), key=str)],
            "kernels": sorted({cell.kernel.name for cell in self.cells}),
            "coverage": list(self.coverage),
        }
