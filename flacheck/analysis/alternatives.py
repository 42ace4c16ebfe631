"""Other dtypes of a kernel, and other forms of its operator, of which everything that was asked
compiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flacheck.analysis.context import FormsOf
from flacheck.analysis.known_good import grouped, is_good
from flacheck.analysis.observed import Observed

# The widest type first: what it loses is speed, not range.
DTYPES = ("fp32", "bf16", "fp16")


class Alternatives:
    """What works on the release and target of a failing cell, and in its shape as far as both name
    one.
    """

    def __init__(self, cells: Iterable[Observed], forms: FormsOf) -> None:
        self._form_of = forms
        self._kernels = grouped(
            ((package, *form), kernel) for (package, kernel), form in forms.items()
        )
        self._cells = grouped(
            ((cell.package, cell.kernel, cell.place, cell.dtype), cell) for cell in cells
        )
        self._known: dict[tuple[Any, ...], bool] = {}

    def dtypes(self, cell: Observed) -> list[str]:
        """The other dtypes in which this cell's kernel is good."""
        others = (dtype for dtype in DTYPES if dtype != cell.dtype)
        return [dtype for dtype in others if self._works(cell, cell.kernel, dtype)]

    def forms(self, cell: Observed) -> list[str]:
        """The other forms of this cell's operator of which every kernel is good in this cell's
        dtype.
        """
        operator, own = self._form_of.get((cell.package, cell.kernel), (None, None))
        return [
            form
            for (package, its_operator, form), kernels in sorted(self._kernels.items(), key=str)
            if (package, its_operator) == (cell.package, operator)
            and form != own
            and all(self._works(cell, kernel, cell.dtype) for kernel in kernels)
        ]

    def _works(self, cell: Observed, kernel: str, dtype: str | None) -> bool:
        asked = (cell.package, kernel, cell.place, dtype)
        known = (*asked, cell.size)
        if known not in self._known:
            same = [
                other for other in self._cells.get(asked, ()) if _agree(cell.shape, other.shape)
            ]
            self._known[known] = is_good(same)
        return self._known[known]


def _agree(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(other.get(name, size) == size for name, size in one.items())
