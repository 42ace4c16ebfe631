"""The nearest settings that compile: one candidate for each set of settings that changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations, product
from typing import Any

from flacheck.model import canonical

FIRST = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# Up to so many points each is looked at; beyond, only the nearest values of an axis and a few
# changes at once.
FEW = 64
VALUES = 8
CHANGES = 3
ENOUGH = 5
Use = dict[str, Any]


class Points:
    """Settings that compile, all of one launch."""

    def __init__(self, settings: Iterable[Mapping[str, Any]]) -> None:
        known = list(settings)
        self._names = sorted({name for point in known for name in point}, key=position)
        self._points = {tuple(point.get(name) for name in self._names) for point in known}
        self._axes = [list(dict.fromkeys(axis)) for axis in zip(*self._points, strict=True)]
        self._near: dict[Any, list[tuple[Any, ...]]] = {}

    def nearest(self, failing: Mapping[str, Any]) -> list[Use]:
        """What may be changed, for each set of names the change with the fewest doublings, nearest
        first.

        Empty also when the failing settings themselves compile and nothing else does.
        """
        names = [
            *self._names,
            *sorted((name for name in failing if name not in self._names), key=position),
        ]
        here = tuple(failing.get(name) for name in self._names)
        lost: Use = dict.fromkeys(names[len(self._names) :])
        found = (
            self._all(here)
            if len(self._points) <= FEW
            else self._some(here, 0 if lost else 1) or self._all(here)
        )
        uses = ({**self._use(here, there), **lost} for there in found)
        return sorted((use for use in uses if use), key=lambda use: cost(failing, use))

    def __contains__(self, settings: Mapping[str, Any]) -> bool:
        return tuple(
            settings.get(name) for name in self._names
        ) in self._points and settings.keys() <= {*self._names}

    def _use(self, here: tuple[Any, ...], there: tuple[Any, ...]) -> Use:
        pairs = zip(self._names, here, there, strict=True)
        return {name: value for name, before, value in pairs if before != value}

    def _all(self, here: tuple[Any, ...]) -> Iterable[tuple[Any, ...]]:
        best: dict[tuple[int, ...], tuple[Any, ...]] = {}
        for there in self._points:
            changed = tuple(i for i, value in enumerate(there) if value != here[i])
            known = best.get(changed)
            if known is None or _rank(here, there) < _rank(here, known):
                best[changed] = there
        return best.values()

    def _some(self, here: tuple[Any, ...], fewest: int) -> list[tuple[Any, ...]]:
        """From so few changes on: none at all is a point too where the failing settings have one
        too many.
        """
        found: list[tuple[Any, ...]] = []
        for size in range(fewest, min(CHANGES, len(here)) + 1):
            sets = combinations(range(len(here)), size)
            found += [
                there for changed in sets if (there := self._first(here, changed)) is not None
            ]
            if len(found) >= ENOUGH:
                break
        return found

    def _first(self, here: tuple[Any, ...], changed: tuple[int, ...]) -> tuple[Any, ...] | None:
        """The nearest point that differs from here in exactly these axes."""
        for values in self._around(changed, tuple(here[i] for i in changed)):
            there = list(here)
            for i, value in zip(changed, values, strict=True):
                there[i] = value
            if tuple(there) in self._points:
                return tuple(there)
        return None

    def _around(self, changed: tuple[int, ...], here: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if (changed, here) not in self._near:
            axes = [
                [value for value in self._axes[i] if value != own]
                for i, own in zip(changed, here, strict=True)
            ]
            near = [
                sorted(axis, key=lambda v: _rank((own,), (v,)))[:VALUES]
                for axis, own in zip(axes, here, strict=True)
            ]
            self._near[changed, here] = sorted(
                product(*near), key=lambda values: _rank(here, values)
            )
        return self._near[changed, here]


def steps(failing: Mapping[str, Any], use: Mapping[str, Any]) -> float:
    """How many doublings or halvings lead from the failing settings to those of a fallback."""
    return round(sum(_distance(failing.get(name), value) for name, value in use.items()), 2)


def cost(failing: Mapping[str, Any], use: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort key of a fallback: fewest changes, then fewest steps, then options before blocks and
    smaller first.
    """
    values = [(position(name), _value(value)) for name, value in use.items()]
    return len(use), steps(failing, use), values, canonical(use)


def position(name: str) -> tuple[int, str]:
    """The order in which settings are named: options, then constexprs and sizes, then the dtype."""
    if name == "dtype":
        return len(FIRST) + 1, name
    return (FIRST.index(name), name) if name in FIRST else (len(FIRST), name)


def _rank(here: tuple[Any, ...], there: tuple[Any, ...]) -> tuple[Any, ...]:
    moved = sum(
        _distance(before, after)
        for before, after in zip(here, there, strict=True)
        if before != after
    )
    return round(moved, 2), [_value(value) for value in there], [str(value) for value in there]


def _distance(before: Any, after: Any) -> float:
    if all(type(value) in (int, float) and value > 0 for value in (before, after)):
        return abs(math.log2(after / before))
    return 1.0


def _value(value: Any) -> tuple[bool, float]:
    # At equal distance the smaller number comes first: fewer warps, smaller blocks.
    return (False, value) if type(value) in (int, float) else (True, 0.0)
