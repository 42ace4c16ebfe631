"""A definition of a module, boiled down to the names it uses at each sequence length, in training
and not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from flacheck.source.statements import uses
from flacheck.source.syntax import (
    FUNCTION,
    MODE,
    TRAINING,
    Switch,
    all_names,
    dotted,
    limits,
    switch,
)
from flacheck.source.values import State

_VARYING = frozenset((MODE, TRAINING))


@dataclass(frozen=True)
class Definition:
    """A function, class or assignment: the names it uses at each length where that may change."""

    layer: bool
    lengths: tuple[int, ...]
    cases: Mapping[State, frozenset[str]]
    switch: Switch | None = None

    def uses(self, state: State) -> frozenset[str]:
        """The names used in a state; a length between two known ones behaves as the smaller."""
        nearest = max(length for length in self.lengths if length <= state.length)
        return self.cases[replace(state, length=nearest)]


def definition(node: ast.stmt, known: frozenset[str]) -> Definition:
    """Boil a statement down; of the names it uses only those with a `known` head lead anywhere."""
    every = frozenset() if _is_kernel(node) else all_names(node)
    leading = _within(every, known)
    varying = bool(leading) and not every.isdisjoint(_VARYING)
    lengths = _lengths(node) if varying else (1,)
    found: dict[State, frozenset[str]] = {}
    cases = {}
    for state in states(lengths):
        alike = _alike(node, state, varying) if leading else State(1, False, False)
        if alike not in found:
            found[alike] = leading & uses(node, alike) if varying or alike.plain else leading
        cases[state] = found[alike]
    return Definition(_is_layer(node), lengths, cases, switch(node) if varying else None)


def _alike(node: ast.stmt, state: State, varying: bool) -> State:
    """The one state that stands for all in which a definition uses the same: only objects train or
    have defaults.
    """
    if not isinstance(node, ast.ClassDef):
        return State(state.length, False, False)
    built = any(isinstance(item, FUNCTION) and item.name == "__init__" for item in node.body)
    return State(state.length, state.training and varying, state.plain and built)


def states(lengths: Iterable[int]) -> list[State]:
    """Every state at some lengths, the shortest first."""
    return [
        State(length, *others)
        for length in sorted(lengths)
        for others in product((True, False), repeat=2)
    ]


def _is_layer(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        (dotted(base) or "").endswith("Module") for base in node.bases
    )


def _is_kernel(node: ast.stmt) -> bool:
    """Whether a function is compiled (`@triton.jit`): what it uses runs inside it and is not
    launched.
    """
    if not isinstance(node, FUNCTION):
        return False
    decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return any(dotted(each) in ("triton.jit", "jit") for each in decorators)


def _lengths(node: ast.stmt) -> tuple[int, ...]:
    """The lengths at which a definition may change its ways: 1, and each limit with its successor."""
    return tuple(
        sorted(
            {1} | {length for bound in limits(node) for length in (bound, bound + 1) if length > 1}
        )
    )


def _within(names: frozenset[str], known: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if "*" in known or name.partition(".")[0] in known)
