"""Partial evaluation: arithmetic on literals is done, branches on them are decided."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from flacheck.repro.kernel.syntax import Block, Tree, called, constant, value_of

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Pow: operator.pow,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tl.cdiv": lambda a, b: -(-a // b),
    "triton.cdiv": lambda a, b: -(-a // b),
    "triton.next_power_of_2": lambda n: 1 << (n - 1).bit_length(),
    "tl.constexpr": lambda value: value,
    "min": min,
    "max": max,
    "float": float,
    "int": int,
}
_LARGEST = 1 << 62


class Folding(ast.NodeTransformer):
    """Evaluates what is known; leaves alone what would raise."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if constant(node.left) and constant(node.right):
            return _done(
                node, _BINARY.get(type(node.op)), value_of(node.left), value_of(node.right)
            )
        return _identity(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and constant(node.operand):
            return ast.Constant(not value_of(node.operand))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1 and constant(node.left) and constant(node.comparators[0]):
            return _done(
                node,
                _COMPARE.get(type(node.ops[0])),
                value_of(node.left),
                value_of(node.comparators[0]),
            )
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)
        if any(constant(v) and bool(value_of(v)) is decides for v in node.values[:1]):
            return ast.Constant(decides)
        rest = [v for v in node.values if not constant(v)]
        if any(constant(v) and bool(value_of(v)) is decides for v in node.values):
            return ast.Constant(decides) if not rest else node
        if len(rest) > 1:
            return ast.BoolOp(node.op, rest)
        return rest[0] if rest else ast.Constant(not decides)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if constant(node.test):
            return node.body if value_of(node.test) else node.orelse
        return node

    def visit_If(self, node: ast.If) -> ast.stmt | Block:
        self.generic_visit(node)
        if constant(node.test):
            return node.body if value_of(node.test) else node.orelse
        node.body = node.body or [ast.Pass()]
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    visit_While = visit_For  # type: ignore[assignment]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if node.args and not node.keywords and all(map(constant, node.args)):
            return _done(node, _FUNCTIONS.get(called(node)), *map(value_of, node.args))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Tuple) and constant(node.slice):
            at = value_of(node.slice)
            if isinstance(at, int) and -len(node.value.elts) <= at < len(node.value.elts):
                return node.value.elts[at]
        return node


def folded(tree: Tree) -> Tree:
    """The tree with everything evaluated that can be; it is changed in place."""
    result: Tree = Folding().visit(tree)
    return result


def literal(value: object) -> ast.expr:
    """The literal of a number, a truth value, a string or None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)  # type: ignore[arg-type]


def _done(node: ast.expr, function: Callable[..., Any] | None, *values: Any) -> ast.expr:
    """The result as a literal; the node itself where there is none that Python could write."""
    try:
        result = function(*values) if function else None
    except (ArithmeticError, TypeError, ValueError):
        return node
    if (
        not function
        or isinstance(result, complex)
        or (isinstance(result, (int, float)) and not _small(result))
    ):
        return node
    return literal(result)


def _small(value: float) -> bool:
    return -_LARGEST < value < _LARGEST


def _identity(node: ast.BinOp) -> ast.expr:
    """`x * 1`, `x + 0`, `x // 1` and `0 * x`, of integers: a float of them would change the type."""
    left, right = _integer(node.left), _integer(node.right)
    if isinstance(node.op, ast.Mult):
        if 0 in (left, right):
            return ast.Constant(0)
        return node.right if left == 1 else node.left if right == 1 else node
    if isinstance(node.op, ast.Add):
        return node.right if left == 0 else node.left if right == 0 else node
    if isinstance(node.op, ast.Sub):
        return node.left if right == 0 else node
    if isinstance(node.op, ast.FloorDiv):
        return node.left if right == 1 else node
    return node


def _integer(node: ast.expr) -> int | None:
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
