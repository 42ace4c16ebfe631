"""What an expression is worth: constants, comparisons, the arithmetic of sizes."""

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any

from flacheck.source.syntax import called_name

# None is a value that a source may give.
UNKNOWN = object()
# The value of a node that the caller knows, UNKNOWN for all others.
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
    """The smallest power of two that is not below a number."""
    return 1 << (max(number, 1) - 1).bit_length()


def cdiv(number: int, by: int) -> int:
    """A quotient, rounded up."""
    return -(-number // by)


# What host code computes tile sizes with, as Triton defines it.
_CALLS: dict[str, Callable[..., int]] = {
    "next_power_of_2": next_power_of_2,
    "cdiv": cdiv,
    "min": min,
    "max": max,
}


def value(node: ast.AST, known: Lookup) -> Any:
    """What an expression is worth where the values of some nodes are known, or UNKNOWN."""
    # First, so that a caller may also settle a whole comparison.
    told = known(node)
    if told is not UNKNOWN:
        return told
    match node:
        case ast.Constant():
            return node.value
        case ast.Tuple() | ast.List() | ast.Set():
            items = [value(item, known) for item in node.elts]
            return UNKNOWN if UNKNOWN in items else items
        case ast.UnaryOp(op=ast.Not()):
            truth = value(node.operand, known)
            return UNKNOWN if truth is UNKNOWN else not truth
        case ast.BoolOp():
            return _joined(node, [value(item, known) for item in node.values])
        case ast.Compare(ops=[comparison], comparators=[right]):
            return _applied(_COMPARISONS[type(comparison)], [node.left, right], known, False)
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            return _applied(_ARITHMETIC[type(node.op)], [node.left, node.right], known)
        case ast.Call(keywords=[]) if called_name(node) in _CALLS:
            return _applied(_CALLS[called_name(node)], node.args, known)
        case ast.IfExp():
            first, *others = (value(arm, known) for arm in arms(node, known))
            return first if all(first == other for other in others) else UNKNOWN
    return UNKNOWN


def arms(node: ast.IfExp, known: Lookup) -> list[ast.expr]:
    """The arms of a conditional expression that may be taken."""
    truth = value(node.test, known)
    if truth is UNKNOWN:
        return [node.body, node.orelse]
    if truth:
        return [node.body]
    return [node.orelse]


def _joined(node: ast.BoolOp, items: list[Any]) -> Any:
    """One known side can settle an `and` or an `or`, whatever the others are."""
    settles = isinstance(node.op, ast.Or)
    if any(item is not UNKNOWN and bool(item) is settles for item in items):
        return settles
    if UNKNOWN in items:
        return UNKNOWN
    return not settles


def _applied(
    function: Callable[..., Any], sides: Iterable[ast.AST], known: Lookup, of_integers: bool = True
) -> Any:
    values = [value(side, known) for side in sides]
    if any(each is UNKNOWN for each in values):
        return UNKNOWN
    # A product of a string and a large number is nothing to compute.
    if of_integers and any(type(each) is not int for each in values):
        return UNKNOWN
    try:
        return function(*values)
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN
