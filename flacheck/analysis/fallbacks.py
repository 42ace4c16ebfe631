"""What to use instead: for each failing cell, the nearest cells that compile on the same release
and target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flacheck.analysis.alternatives import DTYPES, Alternatives
from flacheck.analysis.context import FormsOf
from flacheck.analysis.known_good import grouped, unserved
from flacheck.analysis.nearest import Points, Use, cost, position, steps
from flacheck.analysis.observed import Observed
from flacheck.analysis.order import by_target, by_version
from flacheck.model import Json, canonical

KEPT = 5


@dataclass(frozen=True)
class Fallback:
    """Use `use` (only what changes) in place of `failing` (what tells this cell from its kernel's
    others).

    The cost is a distance, not a time: `changes`, how many settings change, and `steps`, how many
    doublings or halvings that takes; another dtype or form counts as one step, another release as
    many as lie between. One that was searched for (`flacheck.fallbacks`) also has an estimated
    `loss`, log2 of a ratio of times, None for what no estimate knows; `marks`, who has to change
    each setting; what `follows` in the host code; and `places`, every (toolchain, target) on which
    it was seen to compile.
    """

    kernel: str
    package: str | None
    toolchain: str
    target: str
    failing: Mapping[str, Any]
    use: Mapping[str, Any]
    steps: float
    loss: float | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    follows: Mapping[str, Any] = field(default_factory=dict)
    places: tuple[tuple[str, str], ...] = ()

    @property
    def changes(self) -> int:
        return len(self.use)

    def to_json(self) -> Json:
        where = {"kernel": self.kernel, "toolchain": self.toolchain, "target": self.target}
        change = {"failing": dict(self.failing), "use": dict(self.use)}
        cost: Json = {"changes": self.changes, "steps": self.steps}
        if not self.places:
            return {**where, **change, "cost": cost}
        places = [{"toolchain": toolchain, "target": target} for toolchain, target in self.places]
        searched = {"marks": dict(self.marks), "follows": dict(self.follows), "places": places}
        return {**where, **change, "cost": {**cost, "loss": self.loss}, **searched}

    @staticmethod
    def from_json(value: Mapping[str, Any], package: str | None) -> Fallback:
        """One that was searched for, as it was kept."""
        names = ("kernel", "toolchain", "target", "failing", "use", "marks", "follows")
        places = tuple((place["toolchain"], place["target"]) for place in value["places"])
        cost = {name: value["cost"][name] for name in ("steps", "loss")}
        return Fallback(
            package=package, places=places, **cost, **{name: value[name] for name in names}
        )


def fallbacks(cells: Sequence[Observed], forms: FormsOf) -> list[Fallback]:
    """Up to 5 fallbacks a failing cell, nearest first; another dtype and another form come last.

    A tolerated failure needs none while another configuration of its launch compiles. Another shape
    or another release is never a fallback. Every other setting in `use` was seen to compile with
    the rest of the failing cell's; of another dtype or form alone, that cell or everything that was
    asked compiles.
    """
    failing_of = Telling(cells)
    search = Search(cells, forms)
    out: dict[str, Fallback] = {}
    for cell in sorted(unserved(cells), key=order):
        failing = failing_of(cell)
        for use in search.uses(cell):
            found = Fallback(
                cell.kernel, cell.package, *cell.place, failing, use, steps(cell.settings, use)
            )
            out.setdefault(canonical([cell.package, found.to_json()]), found)
    return list(out.values())


class Search:
    """The compiling cells, arranged so that a failing one finds its neighbours."""

    def __init__(self, cells: Sequence[Observed], forms: FormsOf) -> None:
        compiling = [cell for cell in cells if cell.compiles]
        self._own = _points((_own(cell), cell.settings) for cell in compiling)
        self._in_dtype = _points(
            ((_neighbourhood(cell), cell.dtype), cell.settings) for cell in compiling
        )
        self._dtypes = grouped((_neighbourhood(cell), cell.dtype) for cell in compiling)
        self._dtypes = {place: sorted(set(found), key=str) for place, found in self._dtypes.items()}
        self._alternatives = Alternatives(cells, forms)

    def uses(self, cell: Observed) -> list[Use]:
        """What may be changed instead, nearest first: settings, then the best dtype, then another
        form.
        """
        near = self._own[_own(cell)].nearest(cell.settings) if _own(cell) in self._own else []
        forms = self._alternatives.forms(cell)
        far = [*self._dtype(cell), *({"form": form} for form in forms[:1])]
        return [*near[: KEPT - len(far)], *far]

    def _dtype(self, cell: Observed) -> list[Use]:
        """The widest dtype that needs no other change; else the one that needs the fewest."""
        where = _neighbourhood(cell)
        here = {
            dtype: self._in_dtype[where, dtype]
            for dtype in self._dtypes.get(where, ())
            if dtype != cell.dtype
        }
        alone = {
            dtype for dtype, points in here.items() if {**cell.settings, "dtype": dtype} in points
        }
        alone.update(self._alternatives.dtypes(cell))
        if alone:
            return [{"dtype": min(alone, key=_width)}]
        uses = [use for points in here.values() for use in points.nearest(cell.settings)]
        return sorted(
            uses, key=lambda use: (len(use), _width(use["dtype"]), cost(cell.settings, use))
        )[:1]


def _points(
    named: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]],
) -> dict[tuple[Any, ...], Points]:
    return {key: Points(settings) for key, settings in grouped(named).items()}


def _own(cell: Observed) -> tuple[Any, ...]:
    return cell.place, cell.launch


def _neighbourhood(cell: Observed) -> tuple[Any, ...]:
    """The same launch whatever its dtypes."""
    return cell.package, cell.kernel, cell.place, cell.size, cell.parts.skeleton


def _width(dtype: str | None) -> tuple[int, str]:
    return (DTYPES.index(dtype), dtype) if dtype in DTYPES else (len(DTYPES), str(dtype))


class Telling:
    """What tells a cell from the others of its kernel: its settings and sizes that differ between
    them.
    """

    def __init__(self, cells: Iterable[Observed]) -> None:
        seen: defaultdict[tuple[str | None, str], dict[str, Any]] = defaultdict(dict)
        self._varied: defaultdict[tuple[str | None, str], set[str]] = defaultdict(set)
        # Releases and targets repeat the same calls, which one cell each can stand for.
        for cell in {
            (cell.package, cell.kernel, cell.call, cell.size): cell for cell in cells
        }.values():
            kernel = cell.package, cell.kernel
            known, named = seen[kernel], _named_values(cell)
            absent = known.keys() ^ named.keys() if known else set()
            apart = {
                name for name, value in named.items() if known.setdefault(name, value) != value
            }
            self._varied[kernel] |= absent | apart

    def __call__(self, cell: Observed) -> dict[str, Any]:
        varied = self._varied[cell.package, cell.kernel]
        return {name: value for name, value in _named_values(cell).items() if name in varied}


def _named_values(cell: Observed) -> dict[str, Any]:
    values = {**cell.settings, **cell.shape}
    return {name: values[name] for name in sorted(values, key=position)}


def order(cell: Observed) -> tuple[Any, ...]:
    """The order in which failing cells are advised: release, target, kernel, settings."""
    values = [(name, str(value).zfill(8)) for name, value in _named_values(cell).items()]
    return (
        by_version(cell.toolchain),
        by_target(cell.target),
        cell.kernel,
        cell.package or "",
        values,
    )
