"""The integer arithmetic of host code: what an expression of tile sizes and sizes is worth."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

UNKNOWN = object()
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
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


_CALLS: dict[str, Callable[..., int]] = {
    "next_power_of_2": next_power_of_2,
    "cdiv": cdiv,
    "min": min,
    "max": max,
}


def value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The integer that an expression is worth where some names are known, or UNKNOWN."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else UNKNOWN
    if isinstance(node, ast.Name):
        return known.get(node.id, UNKNOWN)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _applied(_OPERATORS[type(node.op)], [node.left, node.right], known)
    if isinstance(node, ast.Call) and not node.keywords:
        called = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        return _applied(_CALLS[called], node.args, known) if called in _CALLS else UNKNOWN
    return UNKNOWN


def _applied(function: Callable[..., int], nodes: list[ast.expr], known: Mapping[str, Any]) -> Any:
    sides = [value(node, known) for node in nodes]
    if UNKNOWN in sides:
        return UNKNOWN
    try:
        return function(*sides)
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN
