"""Evaluation of expressions: constants, comparisons, the arithmetic of sizes."""

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any

from flacheck.source.syntax import called_name

# A marker of its own, because None is a value that a source may contain.
UNKNOWN = object()
# Returns the value of a node if the caller has one, else UNKNOWN.
Lookup = Callable[[ast.AST], Any]

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
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
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def next_power_of_2(number: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << (max(number, 1) - 1).bit_length()


def cdiv(number: int, by: int) -> int:
    """Return a quotient, rounded up."""
    return -(-number // by)


# The functions by which host code computes tile sizes, as Triton defines them.
_CALLS: dict[str, Callable[..., int]] = {
    "next_power_of_2": next_power_of_2,
    "cdiv": cdiv,
    "min": min,
    "max": max,
}


def value(node: ast.AST, lookup: Lookup) -> Any:
    """Evaluate an expression with a lookup of some nodes' values; return UNKNOWN if it fails."""
    # First, so that a caller may also decide a whole comparison.
    own = lookup(node)
    if own is not UNKNOWN:
        return own
    match node:
        case ast.Constant():
            return node.value
        case ast.Tuple() | ast.List() | ast.Set():
            items = [value(item, lookup) for item in node.elts]
            return UNKNOWN if UNKNOWN in items else items
        case ast.UnaryOp(op=ast.Not()):
            return _apply(operator.not_, [node.operand], lookup, integers_only=False)
        case ast.BoolOp():
            return _join(node, [value(item, lookup) for item in node.values])
        case ast.Compare(ops=[comparison], comparators=[right]):
            compare = _COMPARISONS[type(comparison)]
            return _apply(compare, [node.left, right], lookup, integers_only=False)
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            return _apply(_ARITHMETIC[type(node.op)], [node.left, node.right], lookup)
        case ast.Call(keywords=[]) if called_name(node) in _CALLS:
            return _apply(_CALLS[called_name(node)], node.args, lookup)
        case ast.IfExp():
            results = [value(arm, lookup) for arm in arms(node, lookup)]
            return results[0] if results[0] == results[-1] else UNKNOWN
    return UNKNOWN


def arms(node: ast.IfExp, lookup: Lookup) -> list[ast.expr]:
    """Return the arms of a conditional expression that may be taken."""
    truth = value(node.test, lookup)
    if truth is UNKNOWN:
        return [node.body, node.orelse]
    if truth:
        return [node.body]
    return [node.orelse]


def _join(node: ast.BoolOp, items: list[Any]) -> Any:
    """Evaluate `and` or `or`: one side can decide it, whatever the others are."""
    decisive = isinstance(node.op, ast.Or)
    for item in items:
        if item is not UNKNOWN and bool(item) is decisive:
            return decisive
    if UNKNOWN in items:
        return UNKNOWN
    return not decisive


def _apply(
    function: Callable[..., Any],
    sides: Iterable[ast.AST],
    lookup: Lookup,
    integers_only: bool = True,
) -> Any:
    values = []
    for side in sides:
        each = value(side, lookup)
        # The product of a string and a large number would take too much memory.
        if each is UNKNOWN or (integers_only and type(each) is not int):
            return UNKNOWN
        values.append(each)
    try:
        return function(*values)
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN
