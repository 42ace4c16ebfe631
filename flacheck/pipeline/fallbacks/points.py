"""The nearest settings that compile: one candidate for each set of settings that changes."""

from collections.abc import Iterable, Mapping
from itertools import combinations, product
from typing import Any

from flacheck.pipeline.fallbacks.ranking import Use, distance, position, rank, size

# A launch of at most FEW points is searched in full. Beyond, a search takes only the VALUES nearest
# values of an axis and few changes at once: a scan has thousands of cells, and each failing one
# needs a search.
FEW = 64
VALUES = 8
CHANGES = 3
ENOUGH = 5
_Point = tuple[Any, ...]


class Points:
    """Settings of one launch that compile."""

    def __init__(self, settings: Iterable[Mapping[str, Any]]) -> None:
        compiling = list(settings)
        names: set[str] = set()
        for point in compiling:
            names.update(point)
        self._names = sorted(names, key=position)
        self._points = {self._point(point) for point in compiling}
        self._axes = [list(dict.fromkeys(axis)) for axis in zip(*self._points, strict=True)]
        self._near: dict[Any, list[_Point]] = {}

    def _point(self, settings: Mapping[str, Any]) -> _Point:
        return tuple(settings.get(name) for name in self._names)

    def nearest(self, failing: Mapping[str, Any]) -> list[Use]:
        """Return the nearest change for each set of names that may change, nearest first.

        The result is also empty if only the failing settings themselves compile.
        """
        here = self._point(failing)
        surplus = sorted(failing.keys() - set(self._names), key=position)
        points: Iterable[_Point] = ()
        if len(self._points) > FEW:
            # The unchanged point counts too if the failing settings have a surplus setting.
            points = self._nearest_quickly(here, fewest=0 if surplus else 1)
        uses = []
        for there in points or self._nearest_of_all(here):
            use: Use = {}
            for name, before, value in zip(self._names, here, there, strict=True):
                if before != value:
                    use[name] = value
            use.update(dict.fromkeys(surplus))
            if use:
                uses.append(use)
        return sorted(uses, key=lambda use: rank(failing, use))

    def __contains__(self, settings: Mapping[str, Any]) -> bool:
        return self._point(settings) in self._points and settings.keys() <= set(self._names)

    def _nearest_of_all(self, here: _Point) -> Iterable[_Point]:
        """Return the nearest point of each set of axes, out of all points."""
        best: dict[tuple[int, ...], _Point] = {}
        for there in self._points:
            axes = _changed_axes(here, there)
            nearest = best.get(axes)
            if nearest is None or _rank(here, there) < _rank(here, nearest):
                best[axes] = there
        return best.values()

    def _nearest_quickly(self, here: _Point, fewest: int) -> list[_Point]:
        """Return the nearest points with few changes, from the nearest values of each axis."""
        points: list[_Point] = []
        for count in range(fewest, min(CHANGES, len(here)) + 1):
            for axes in combinations(range(len(here)), count):
                there = self._first(here, axes)
                if there is not None:
                    points.append(there)
            if len(points) >= ENOUGH:
                break
        return points

    def _first(self, here: _Point, axes: tuple[int, ...]) -> _Point | None:
        """Return the nearest point that differs from `here` in exactly these axes."""
        there = list(here)
        for values in self._other_values(axes, tuple(here[i] for i in axes)):
            for i, value in zip(axes, values, strict=True):
                there[i] = value
            if tuple(there) in self._points:
                return tuple(there)
        return None

    def _other_values(self, axes: tuple[int, ...], here: _Point) -> list[_Point]:
        """Return the other values of some axes, nearest first.

        The result is cached, because many failing cells share it.
        """
        if (axes, here) not in self._near:
            choices = []
            for i, own in zip(axes, here, strict=True):
                others = [value for value in self._axes[i] if value != own]
                others.sort(key=lambda value: _rank((own,), (value,)))
                choices.append(others[:VALUES])
            near = sorted(product(*choices), key=lambda values: _rank(here, values))
            self._near[axes, here] = near
        return self._near[axes, here]


def _changed_axes(here: _Point, there: _Point) -> tuple[int, ...]:
    return tuple(i for i, value in enumerate(there) if value != here[i])


def _rank(here: _Point, there: _Point) -> tuple[Any, ...]:
    total = 0.0
    for before, after in zip(here, there, strict=True):
        if before != after:
            total += distance(before, after)
    return round(total, 2), list(map(size, there)), list(map(str, there))
