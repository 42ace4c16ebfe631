"""What an expression is worth at one sequence length, as far as the source says it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flacheck.source.syntax import TRAINING, dotted, evaluated, is_length, limit

UNKNOWN = object()
_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}


@dataclass(frozen=True)
class State:
    """The question asked of a layer: a sequence length, whether it trains, and whether it is
    `plain`, built with its constructor's defaults, or configured in whatever way.
    """

    length: int
    training: bool
    plain: bool


@dataclass(frozen=True)
class Flow:
    """What holds between two statements: the names used so far, the variables whose values are
    known, and how the block ended ("returns" or "raises"; empty while it goes on).
    """

    state: State
    known: Mapping[str, Any] = field(default_factory=dict)
    uses: frozenset[str] = frozenset()
    end: str = ""

    def using(self, *nodes: ast.AST) -> Flow:
        """The same with the names that these nodes use."""
        return replace(self, uses=self.uses.union(*(names(node, self) for node in nodes)))

    def setting(self, variables: Iterable[str], content: Any = UNKNOWN) -> Flow:
        """The same with another value of variables, which are forgotten when it is UNKNOWN."""
        changed = {
            name: content for name in variables if self.known.get(name, UNKNOWN) is not content
        }
        if not changed:
            return self
        return replace(
            self,
            known={
                name: each
                for name, each in {**self.known, **changed}.items()
                if each is not UNKNOWN
            },
        )


def names(node: ast.AST, flow: Flow) -> Iterator[str]:
    """The names below a node, less the untaken arm of a conditional expression whose test is known."""
    todo = [node]
    while todo:
        node = todo.pop()
        if name := dotted(node):
            yield name
        elif isinstance(node, ast.IfExp):
            todo += [node.test, *_arms(node, flow)]
        else:
            todo += evaluated(node)


def value(node: ast.AST, flow: Flow, deciding: bool = False) -> Any:
    """What an expression is worth here, or UNKNOWN. Lengths are known only when `deciding` the
    mode: elsewhere the second axis of a tensor need not be the sequence.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if name := dotted(node):
        return flow.state.training if name == TRAINING else flow.known.get(name, UNKNOWN)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        items = [value(item, flow, deciding) for item in node.elts]
        return UNKNOWN if UNKNOWN in items else items
    return _compound(node, flow, deciding)


def _compound(node: ast.AST, flow: Flow, deciding: bool) -> Any:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        truth = value(node.operand, flow, deciding)
        return UNKNOWN if truth is UNKNOWN else not truth
    if isinstance(node, ast.BoolOp):
        return _joined(node, [value(item, flow, deciding) for item in node.values])
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        return _compared(node, flow, deciding)
    if isinstance(node, ast.IfExp):
        first, *others = (value(arm, flow, deciding) for arm in _arms(node, flow, deciding))
        return first if all(first == other for other in others) else UNKNOWN
    return UNKNOWN


def _arms(node: ast.IfExp, flow: Flow, deciding: bool = False) -> list[ast.expr]:
    """The arms of a conditional expression that may be taken."""
    truth = value(node.test, flow, deciding)
    if truth is UNKNOWN:
        return [node.body, node.orelse]
    return [node.body if truth else node.orelse]


def _joined(node: ast.BoolOp, items: list[Any]) -> Any:
    """One known side can settle an `and` or an `or`, whatever the others are."""
    settles = isinstance(node.op, ast.Or)
    if any(item is not UNKNOWN and bool(item) is settles for item in items):
        return settles
    return UNKNOWN if UNKNOWN in items else not settles


def _compared(node: ast.Compare, flow: Flow, deciding: bool) -> Any:
    measured = deciding and limit(node) is not None
    sides = [
        flow.state.length if measured and is_length(side) else value(side, flow, deciding)
        for side in (node.left, node.comparators[0])
    ]
    compare = _OPERATORS.get(type(node.ops[0]))
    if UNKNOWN in sides or compare is None:
        return UNKNOWN
    try:
        return compare(*sides)
    except TypeError:
        return UNKNOWN
