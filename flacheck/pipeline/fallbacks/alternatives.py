"""Fallbacks among a scan's own records, each on the failing cell's release and target."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flacheck.evidence.analysis.context import FormsOf
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.launch_evidence import compile_all, find_blocking_failures
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.model import canonical
from flacheck.pipeline.fallbacks.ranking import Use, named_values, order, position, rank, steps

# Fallbacks shown for one failing cell; the rest is further away.
_LIMIT = 5
# The widest type first: it loses speed, but not range.
_DTYPES = ("fp32", "bf16", "fp16")
_KernelId = tuple[str | None, str]


def fallbacks(cells: Sequence[ObservedCell], forms: FormsOf) -> list[Fallback]:
    """Return up to 5 fallbacks a failing cell, nearest first; another dtype or form comes last.

    A tolerated failure needs none while another configuration of its launch compiles. Another shape
    or another release is never a fallback. All other settings of the fallback compile in a record
    with the rest of the failing cell's settings. For another dtype or form alone, that cell
    compiles, or every record of that dtype or form.
    """
    distinctions = Distinctions(cells)
    neighbours = _Neighbours(cells, forms)
    # Cells that differ only in details without a name (an alignment, say) have one fallback.
    distinct: dict[str, Fallback] = {}
    for cell in sorted(find_blocking_failures(cells), key=order):
        failing = distinctions.of(cell)
        for use in neighbours.uses(cell):
            away = steps(cell.settings, use)
            new = Fallback(cell.kernel, cell.package, *cell.place, failing, use, away)
            distinct.setdefault(canonical([cell.package, new.to_json()]), new)
    return list(distinct.values())


class _Neighbours:
    """The compiling cells, indexed by the settings that a failing cell may keep."""

    def __init__(self, cells: Sequence[ObservedCell], forms: FormsOf) -> None:
        by_launch = []
        by_dtype = []
        dtypes = []
        for cell in cells:
            if not cell.compiles:
                continue
            launch = _launch_of_any_dtype(cell)
            by_launch.append(((cell.place, cell.launch), cell))
            by_dtype.append(((launch, cell.dtype), cell))
            dtypes.append((launch, cell.dtype))
        self._of_launch = _points(by_launch)
        self._of_dtype = _points(by_dtype)
        self._dtypes: dict[tuple[Any, ...], list[str | None]] = {}
        for launch, several in group_by_key(dtypes).items():
            self._dtypes[launch] = sorted(set(several), key=str)
        self._alternatives = Alternatives(cells, forms)

    def uses(self, cell: ObservedCell) -> list[Use]:
        """Return the possible changes: settings, nearest first, then the best dtype and form."""
        near: list[Use] = []
        key = (cell.place, cell.launch)
        if key in self._of_launch:
            near = self._of_launch[key].nearest(cell.settings)
        # A dtype and a form stay even if settings alone would fill the list: they lose precision or
        # speed, but help where no setting does.
        far = self._dtype(cell)
        forms = self._alternatives.forms(cell)
        if forms:
            far.append({"form": forms[0]})
        return [*near[: _LIMIT - len(far)], *far]

    def _dtype(self, cell: ObservedCell) -> list[Use]:
        """Return the widest dtype that needs no other change, or the one with fewest changes."""
        launch = _launch_of_any_dtype(cell)
        points_of = {}
        for dtype in self._dtypes.get(launch, ()):
            if dtype != cell.dtype:
                points_of[dtype] = self._of_dtype[launch, dtype]
        alone: set[str | None] = set(self._alternatives.dtypes(cell))
        for dtype, points in points_of.items():
            if {**cell.settings, "dtype": dtype} in points:
                alone.add(dtype)
        if alone:
            return [{"dtype": min(alone, key=_width)}]
        uses: list[Use] = []
        for points in points_of.values():
            uses += points.nearest(cell.settings)

        def order_of(use: Use) -> tuple[Any, ...]:
            return len(use), _width(use["dtype"]), rank(cell.settings, use)

        return sorted(uses, key=order_of)[:1]


class Points:
    """The distinct settings of one launch that compile."""

    def __init__(self, settings: Iterable[Mapping[str, Any]]) -> None:
        compiling = list(settings)
        names: set[str] = set()
        for point in compiling:
            names.update(point)
        self._names = sorted(names, key=position)
        self._points = set(map(self._point, compiling))

    def _point(self, settings: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(settings.get(name) for name in self._names)

    def nearest(self, failing: Mapping[str, Any]) -> list[Use]:
        """Return the nearest change for each set of names that may change, nearest first.

        The result is also empty if only the failing settings themselves compile.
        """
        here = self._point(failing)
        surplus = sorted(failing.keys() - set(self._names), key=position)
        uses: dict[tuple[str, ...], list[Use]] = {}
        for there in self._points:
            use: Use = {}
            for name, before, value in zip(self._names, here, there, strict=True):
                if before != value:
                    use[name] = value
            use.update(dict.fromkeys(surplus))
            if use:
                uses.setdefault(tuple(use), []).append(use)

        def order_of(use: Use) -> tuple[Any, ...]:
            return rank(failing, use)

        return sorted((min(alike, key=order_of) for alike in uses.values()), key=order_of)

    def __contains__(self, settings: Mapping[str, Any]) -> bool:
        return self._point(settings) in self._points and settings.keys() <= set(self._names)


class Alternatives:
    """Other dtypes of a kernel and other forms of its operator whose records all compile.

    Only records of the failing cell's release and target count, and of its shape, as far as both
    name a size.
    """

    def __init__(self, cells: Iterable[ObservedCell], forms: FormsOf) -> None:
        self._form_of = forms
        self._kernels: defaultdict[tuple[Any, ...], list[str]] = defaultdict(list)
        for (package, kernel), form in forms.items():
            self._kernels[(package,) + form].append(kernel)
        self._cells: defaultdict[tuple[Any, ...], list[ObservedCell]] = defaultdict(list)
        for cell in cells:
            group = (cell.package, cell.kernel, cell.place, cell.dtype)
            self._cells[group].append(cell)
        self._cache: dict[tuple[Any, ...], bool] = {}

    def dtypes(self, cell: ObservedCell) -> list[str]:
        """Return the other dtypes in which all records of this cell's kernel are good."""
        others = []
        for dtype in _DTYPES:
            if dtype != cell.dtype and self._works(cell, cell.kernel, dtype):
                others.append(dtype)
        return others

    def forms(self, cell: ObservedCell) -> list[str]:
        """Return the other forms of this operator whose kernels are all good in this dtype."""
        operator, own = self._form_of.get((cell.package, cell.kernel), (None, None))
        forms = []
        for (package, other_operator, form), kernels in sorted(self._kernels.items(), key=str):
            if (package, other_operator) != (cell.package, operator) or form == own:
                continue
            if all(self._works(cell, kernel, cell.dtype) for kernel in kernels):
                forms.append(form)
        return forms

    def _works(self, cell: ObservedCell, kernel: str, dtype: str | None) -> bool:
        group = (cell.package, kernel, cell.place, dtype)
        # A kernel has hundreds of failing cells of one size, so the result is cached.
        key = (*group, cell.size)
        if key not in self._cache:
            others = self._cells.get(group, ())
            same_shape = [other for other in others if _shapes_agree(cell, other)]
            self._cache[key] = compile_all(same_shape)
        return self._cache[key]


class Distinctions:
    """The settings and sizes that distinguish a cell from the others of its kernel."""

    def __init__(self, cells: Iterable[ObservedCell]) -> None:
        first_values: defaultdict[_KernelId, dict[str, Any]] = defaultdict(dict)
        self._names: defaultdict[_KernelId, set[str]] = defaultdict(set)
        # Releases and targets repeat calls, so one cell of each call is enough.
        calls = {}
        for cell in cells:
            call = (cell.package, cell.kernel, cell.call, cell.size)
            calls[call] = cell
        for cell in calls.values():
            kernel = cell.package, cell.kernel
            first, values = first_values[kernel], named_values(cell)
            if first:
                self._names[kernel] |= first.keys() ^ values.keys()
            for name, value in values.items():
                if first.setdefault(name, value) != value:
                    self._names[kernel].add(name)

    def of(self, cell: ObservedCell) -> dict[str, Any]:
        """Return the values of a cell that differ between the cells of its kernel."""
        names = self._names[cell.package, cell.kernel]
        values = {}
        for name, value in named_values(cell).items():
            if name in names:
                values[name] = value
        return values


def _points(
    cells: Iterable[tuple[tuple[Any, ...], ObservedCell]],
) -> Mapping[tuple[Any, ...], Points]:
    settings: defaultdict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for key, cell in cells:
        settings[key].append(cell.settings)
    return {key: Points(several) for key, several in settings.items()}


def _shapes_agree(cell: ObservedCell, other: ObservedCell) -> bool:
    """Return True if the shapes are equal in every size that both name."""
    return all(other.shape.get(name, size) == size for name, size in cell.shape.items())


def _launch_of_any_dtype(cell: ObservedCell) -> tuple[Any, ...]:
    return cell.package, cell.kernel, cell.place, cell.size, cell.parts.skeleton


def _width(dtype: str | None) -> tuple[int, str]:
    if dtype in _DTYPES:
        return _DTYPES.index(dtype), dtype
    return len(_DTYPES), str(dtype)
