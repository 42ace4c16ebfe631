"""Fallbacks among a scan's own records, each on the failing cell's release and target."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flacheck.analysis.context import FormsOf
from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.standing import find_blocking_failures, is_good
from flacheck.fallbacks.points import Points
from flacheck.fallbacks.ranking import Use, named_values, order, rank, steps
from flacheck.model import canonical

# So many are shown of one failing cell; the rest is further away.
_KEPT = 5
# The widest type first: what it loses is speed, not range.
_DTYPES = ("fp32", "bf16", "fp16")


def fallbacks(cells: Sequence[ObservedCell], forms: FormsOf) -> list[Fallback]:
    """Up to 5 fallbacks a failing cell, nearest first; another dtype and another form come last.

    A tolerated failure needs none while another configuration of its launch compiles. Another shape
    or another release is never a fallback. Every other setting in `use` was seen to compile with
    the rest of the failing cell's; of another dtype or form alone, that cell or everything that was
    asked compiles.
    """
    failing_of = Telling(cells)
    neighbours = _Neighbours(cells, forms)
    # Cells that differ in nothing that is named (an alignment, say) have one fallback.
    out: dict[str, Fallback] = {}
    for cell in sorted(find_blocking_failures(cells), key=order):
        failing = failing_of(cell)
        for use in neighbours.uses(cell):
            away = steps(cell.settings, use)
            new = Fallback(cell.kernel, cell.package, *cell.place, failing, use, away)
            out.setdefault(canonical([cell.package, new.to_json()]), new)
    return list(out.values())


class _Neighbours:
    """The compiling cells, arranged so that a failing one finds its neighbours."""

    def __init__(self, cells: Sequence[ObservedCell], forms: FormsOf) -> None:
        compiling = [cell for cell in cells if cell.compiles]
        self._of_launch = _points(((cell.place, cell.launch), cell) for cell in compiling)
        self._of_dtype = _points(
            ((_launch_of_any_dtype(cell), cell.dtype), cell) for cell in compiling
        )
        dtypes = group_by_key((_launch_of_any_dtype(cell), cell.dtype) for cell in compiling)
        self._dtypes = {launch: sorted(set(own), key=str) for launch, own in dtypes.items()}
        self._alternatives = Alternatives(cells, forms)

    def uses(self, cell: ObservedCell) -> list[Use]:
        """What may be changed, nearest first: settings, then the best dtype, then another form."""
        near: list[Use] = []
        if (cell.place, cell.launch) in self._of_launch:
            near = self._of_launch[cell.place, cell.launch].nearest(cell.settings)
        forms = self._alternatives.forms(cell)
        # Kept even when settings alone would fill the list: they lose precision or speed, but help
        # where no setting does.
        far = [*self._dtype(cell), *({"form": form} for form in forms[:1])]
        return [*near[: _KEPT - len(far)], *far]

    def _dtype(self, cell: ObservedCell) -> list[Use]:
        """The widest dtype that needs no other change; else the one that needs the fewest."""
        launch = _launch_of_any_dtype(cell)
        others = [dtype for dtype in self._dtypes.get(launch, ()) if dtype != cell.dtype]
        points = {dtype: self._of_dtype[launch, dtype] for dtype in others}
        alone = set(self._alternatives.dtypes(cell))
        alone.update(d for d in others if {**cell.settings, "dtype": d} in points[d])
        if alone:
            return [{"dtype": min(alone, key=_width)}]
        uses = [use for dtype in others for use in points[dtype].nearest(cell.settings)]
        uses.sort(key=lambda use: (len(use), _width(use["dtype"]), rank(cell.settings, use)))
        return uses[:1]


class Alternatives:
    """Other dtypes of a kernel, and other forms of its operator, of which everything that was asked
    compiles on the release and target of a failing cell, and in its shape as far as both name one.
    """

    def __init__(self, cells: Iterable[ObservedCell], forms: FormsOf) -> None:
        self._form_of = forms
        self._kernels = group_by_key(
            ((package, *form), kernel) for (package, kernel), form in forms.items()
        )
        self._cells = group_by_key(
            ((cell.package, cell.kernel, cell.place, cell.dtype), cell) for cell in cells
        )
        self._known: dict[tuple[Any, ...], bool] = {}

    def dtypes(self, cell: ObservedCell) -> list[str]:
        """The other dtypes in which this cell's kernel is good."""
        others = (dtype for dtype in _DTYPES if dtype != cell.dtype)
        return [dtype for dtype in others if self._works(cell, cell.kernel, dtype)]

    def forms(self, cell: ObservedCell) -> list[str]:
        """The other forms of this operator whose kernels are all good in this cell's dtype."""
        operator, own = self._form_of.get((cell.package, cell.kernel), (None, None))
        forms = []
        for (package, its_operator, form), kernels in sorted(self._kernels.items(), key=str):
            same = (package, its_operator) == (cell.package, operator) and form != own
            if same and all(self._works(cell, kernel, cell.dtype) for kernel in kernels):
                forms.append(form)
        return forms

    def _works(self, cell: ObservedCell, kernel: str, dtype: str | None) -> bool:
        asked = (cell.package, kernel, cell.place, dtype)
        # A kernel has hundreds of failing cells of one size: asked once.
        known = (*asked, cell.size)
        if known not in self._known:
            cells = self._cells.get(asked, ())
            sizes = cell.shape.items()
            # In the cell's shape, as far as both name a size.
            self._known[known] = is_good(
                [c for c in cells if all(c.shape.get(name, size) == size for name, size in sizes)]
            )
        return self._known[known]


class Telling:
    """Tells a cell from the others of its kernel: by the settings and sizes that differ."""

    def __init__(self, cells: Iterable[ObservedCell]) -> None:
        seen: defaultdict[tuple[str | None, str], dict[str, Any]] = defaultdict(dict)
        self._varied: defaultdict[tuple[str | None, str], set[str]] = defaultdict(set)
        # Releases and targets repeat the same calls, which one cell each can stand for.
        calls = {(cell.package, cell.kernel, cell.call, cell.size): cell for cell in cells}
        for cell in calls.values():
            kernel = cell.package, cell.kernel
            known, named = seen[kernel], named_values(cell)
            if known:
                self._varied[kernel] |= known.keys() ^ named.keys()
            for name, value in named.items():
                if known.setdefault(name, value) != value:
                    self._varied[kernel].add(name)

    def __call__(self, cell: ObservedCell) -> dict[str, Any]:
        varied = self._varied[cell.package, cell.kernel]
        return {name: value for name, value in named_values(cell).items() if name in varied}


def _points(
    cells: Iterable[tuple[tuple[Any, ...], ObservedCell]],
) -> Mapping[tuple[Any, ...], Points]:
    settings = group_by_key((key, cell.settings) for key, cell in cells)
    return {key: Points(several) for key, several in settings.items()}


def _launch_of_any_dtype(cell: ObservedCell) -> tuple[Any, ...]:
    return cell.package, cell.kernel, cell.place, cell.size, cell.parts.skeleton


def _width(dtype: str | None) -> tuple[int, str]:
    if dtype in _DTYPES:
        return _DTYPES.index(dtype), dtype
    return len(_DTYPES), str(dtype)
