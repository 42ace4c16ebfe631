"""The nearest settings that compile: one candidate for each set of settings that changes."""

from collections.abc import Iterable, Mapping
from itertools import combinations, product
from typing import Any

from flacheck.fallbacks.ranking import Use, distance, position, rank, size

# Up to so many points each is looked at; beyond, only the nearest values of an axis and a few
# changes at once: a scan has thousands of cells, and each failing one is asked.
FEW = 64
VALUES = 8
CHANGES = 3
ENOUGH = 5
_Point = tuple[Any, ...]


class Points:
    """Settings that compile, all of one launch."""

    def __init__(self, settings: Iterable[Mapping[str, Any]]) -> None:
        known = list(settings)
        self._names = sorted({name for point in known for name in point}, key=position)
        self._points = {tuple(point.get(name) for name in self._names) for point in known}
        self._axes = [list(dict.fromkeys(axis)) for axis in zip(*self._points, strict=True)]
        self._near: dict[Any, list[_Point]] = {}

    def nearest(self, failing: Mapping[str, Any]) -> list[Use]:
        """What may be changed, for each set of names the change with the fewest doublings, nearest
        first.

        Empty also when the failing settings themselves compile and nothing else does.
        """
        here = tuple(failing.get(name) for name in self._names)
        lost = sorted(failing.keys() - set(self._names), key=position)
        points: Iterable[_Point] = ()
        if len(self._points) > FEW:
            # No change at all is a point too where the failing settings have one too many.
            points = self._quickly(here, fewest=0 if lost else 1)
        uses = []
        for there in points or self._thoroughly(here):
            pairs = zip(self._names, here, there, strict=True)
            use = {name: value for name, before, value in pairs if before != value}
            uses.append({**use, **dict.fromkeys(lost)})
        return sorted(filter(None, uses), key=lambda use: rank(failing, use))

    def __contains__(self, settings: Mapping[str, Any]) -> bool:
        point = tuple(settings.get(name) for name in self._names)
        return point in self._points and settings.keys() <= {*self._names}

    def _thoroughly(self, here: _Point) -> Iterable[_Point]:
        """The nearest point of each set of axes, out of all points."""
        best: dict[tuple[int, ...], _Point] = {}
        for there in self._points:
            changed = tuple(i for i, value in enumerate(there) if value != here[i])
            known = best.get(changed)
            if known is None or _rank(here, there) < _rank(here, known):
                best[changed] = there
        return best.values()

    def _quickly(self, here: _Point, fewest: int) -> list[_Point]:
        """The same with few changes, of the nearest values of each axis."""
        points: list[_Point] = []
        for count in range(fewest, min(CHANGES, len(here)) + 1):
            for changed in combinations(range(len(here)), count):
                there = self._first(here, changed)
                if there is not None:
                    points.append(there)
            if len(points) >= ENOUGH:
                break
        return points

    def _first(self, here: _Point, changed: tuple[int, ...]) -> _Point | None:
        """The nearest point that differs from here in exactly these axes."""
        there = list(here)
        for values in self._around(changed, tuple(here[i] for i in changed)):
            for i, value in zip(changed, values, strict=True):
                there[i] = value
            if tuple(there) in self._points:
                return tuple(there)
        return None

    def _around(self, changed: tuple[int, ...], here: _Point) -> list[_Point]:
        """The other values of some axes, nearest first; many failing cells ask for the same."""
        if (changed, here) not in self._near:
            axes = []
            for i, own in zip(changed, here, strict=True):
                others = [value for value in self._axes[i] if value != own]
                axes.append(sorted(others, key=lambda value: _rank((own,), (value,)))[:VALUES])
            near = sorted(product(*axes), key=lambda values: _rank(here, values))
            self._near[changed, here] = near
        return self._near[changed, here]


def _rank(here: _Point, there: _Point) -> tuple[Any, ...]:
    pairs = zip(here, there, strict=True)
    moved = sum(distance(before, after) for before, after in pairs if before != after)
    return round(moved, 2), [size(value) for value in there], [str(value) for value in there]
