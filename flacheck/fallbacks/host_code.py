"""What host code passes for a kernel's parameters where it launches it: sizes of the data, or
choices of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flacheck.fallbacks.arithmetic import UNKNOWN, value

_DEPTH = 6
SIZE, COVERS, GIVEN, COMPUTED = "size", "covers", "given", "computed"
_WORST = (SIZE, COVERS, GIVEN, COMPUTED)


@dataclass(frozen=True)
class HostLaunch:
    """One place that launches a kernel: the expression passed for each parameter, all that the
    enclosing function assigns to each of its names before that line, the names that it asserts to
    be 1, and its own parameters.
    """

    passed: Mapping[str, ast.expr]
    assigned: Mapping[str, tuple[ast.expr, ...]] = field(default_factory=dict)
    ones: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()

    def kind(self, parameter: str) -> str:
        """`size`: of the data; `covers`: a power of two that holds all of a size; `given`: whoever
        calls the host code says it; `computed`: the host code chooses it.
        """
        expression = self.passed[parameter]
        alone = isinstance(expression, ast.Name) and expression.id in self._alone()
        return COVERS if alone else self._kind(expression, _DEPTH)

    def _alone(self) -> set[str]:
        """The tiles of which the host asserts that one is enough: `assert NK == 1` after `NK =
        cdiv(K, BK)`.
        """
        counts = (
            each
            for name in self.ones
            for each in self.assigned.get(name, ())
            if isinstance(each, ast.Call)
        )
        return {
            count.args[1].id
            for count in counts
            if len(count.args) == 2 and isinstance(count.args[1], ast.Name)
        }

    def uses(self, parameter: str) -> frozenset[str]:
        """The names that the value of a parameter is made of, directly or not."""
        found: set[str] = set()
        todo = [self.passed[parameter]] if parameter in self.passed else []
        while todo:
            for node in ast.walk(todo.pop()):
                if isinstance(node, ast.Name) and node.id not in found:
                    found.add(node.id)
                    todo += self.assigned.get(node.id, ())
        return frozenset(found)

    def settled(self, parameter: str, by: Iterable[str]) -> bool:
        """Whether what is passed for a parameter rests on nothing but what is passed for others,
        and on constants.
        """
        given = {getattr(self.passed[name], "id", name) for name in by if name in self.passed}
        return self._rests(self.passed[parameter], given)

    def _rests(self, node: ast.expr, known: set[str]) -> bool:
        """`known` grows by the names that were looked at: what is made of itself rests on its other
        parts.
        """
        for name in {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - known:
            known.add(name)
            made = self.assigned.get(name, ())
            if not (made or name not in self.parameters) or not all(
                self._rests(each, known) for each in made
            ):
                return False
        return True

    def values(self, known: Mapping[str, Any], parameter: str) -> list[Any]:
        """What the expression of a parameter may be worth where some names have known values."""
        return (
            self._values(self.passed[parameter], known, _DEPTH) if parameter in self.passed else []
        )

    def _values(self, node: ast.expr, known: Mapping[str, Any], depth: int) -> list[Any]:
        if isinstance(node, ast.Name) and node.id not in known and depth:
            return [
                each
                for one in self.assigned.get(node.id, ())
                for each in self._values(one, known, depth - 1)
            ]
        if isinstance(node, ast.IfExp):
            return [
                *self._values(node.body, known, depth),
                *self._values(node.orelse, known, depth),
            ]
        worth = value(node, known)
        return [] if worth is UNKNOWN else [worth]

    def _kind(self, node: ast.expr, depth: int) -> str:
        if isinstance(node, ast.Name):
            kinds = [
                self._kind(each, depth - 1) for each in self.assigned.get(node.id, ()) if depth
            ]
            given = node.id in self.parameters and node.id not in self.assigned
            return GIVEN if given else _worst(kinds)
        if isinstance(node, ast.IfExp):
            return _worst([self._kind(node.body, depth), self._kind(node.orelse, depth)])
        if measures(node) or self._is_ratio(node, depth):
            return SIZE
        return self._of_call(node, depth) if isinstance(node, ast.Call) else COMPUTED

    def _is_ratio(self, node: ast.expr, depth: int) -> bool:
        """A size by a size or a number, `HQ // H`; by what the host chooses it is a count of tiles."""
        if not isinstance(node, ast.BinOp):
            return False
        sides = [side for side in (node.left, node.right) if not isinstance(side, ast.Constant)]
        return bool(sides) and all(self._kind(side, depth) == SIZE for side in sides)

    def _of_call(self, call: ast.Call, depth: int) -> str:
        called = (
            call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        )
        kinds = [self._kind(argument, depth) for argument in call.args]
        if called == "next_power_of_2" and kinds and kinds[0] != COMPUTED:
            return COVERS
        if called == "max":
            return {SIZE: COVERS}.get(_worst(kinds), _worst(kinds))
        # The least of a size and of anything else is what the host chooses, as long as that is
        # smaller.
        return COMPUTED


def _worst(kinds: Iterable[str]) -> str:
    return min(kinds, key=_WORST.index, default=COMPUTED)


def measures(node: ast.expr) -> bool:
    """`x.shape[-1]`, `x.size(0)`, `len(x)`: a size of the data."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(inner, ast.Attribute):
        return inner.attr == "shape"
    return isinstance(inner, ast.Call) and (
        getattr(inner.func, "attr", "") in ("size", "numel")
        or getattr(inner.func, "id", "") == "len"
    )
