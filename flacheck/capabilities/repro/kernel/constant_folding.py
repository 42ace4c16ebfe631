"""Constant folding: arithmetic on literals, and branches that depend on literals."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from flacheck.capabilities.repro.kernel.syntax_trees import Block, callee_name, is_literal

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
# Functions of constants that the front end or the host also evaluates.
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
# The integers that leave the other operand as it is, on the left and on the right.
_NEUTRAL: dict[type[ast.operator], tuple[int | None, int | None]] = {
    ast.Mult: (1, 1),
    ast.Add: (0, 0),
    ast.Sub: (None, 0),
    ast.FloorDiv: (None, 1),
}
# Half of the range of an i64: all releases reject larger literals and infinities.
_LARGEST = 1 << 62


class _Folding(ast.NodeTransformer):
    """A transformer that evaluates constant expressions, except those that would raise."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if is_literal(node.left) and is_literal(node.right):
            return _evaluate(node, _BINARY.get(type(node.op)), node.left, node.right)
        return _without_neutral(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return _evaluate(node, operator.not_, node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) > 1:
            return node
        return _evaluate(node, _COMPARE.get(type(node.ops[0])), node.left, node.comparators[0])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        decisive = isinstance(node.op, ast.Or)
        decides = [is_literal(v) and _is_true(v) is decisive for v in node.values]
        variable = [value for value in node.values if not is_literal(value)]
        if decides[0] or (any(decides) and not variable):
            return ast.Constant(decisive)
        if any(decides):
            return node
        if len(variable) > 1:
            return ast.BoolOp(node.op, variable)
        return variable[0] if variable else ast.Constant(not decisive)

    def visit_If(self, node: ast.If | ast.IfExp) -> ast.AST | Block:
        self.generic_visit(node)
        if is_literal(node.test):
            if _is_true(node.test):
                return node.body
            return node.orelse
        if isinstance(node, ast.If):
            node.body = node.body or [ast.Pass()]
        return node

    visit_IfExp = visit_If

    def visit_For(self, node: ast.For | ast.While) -> ast.stmt:
        self.generic_visit(node)
        # Folding a branch inside may remove every statement.
        node.body = node.body or [ast.Pass()]
        return node

    visit_While = visit_For

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if node.keywords or not node.args:
            return node
        return _evaluate(node, _FUNCTIONS.get(callee_name(node)), *node.args)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Tuple) and is_literal(node.slice):
            at, items = ast.literal_eval(node.slice), node.value.elts
            if isinstance(at, int) and -len(items) <= at < len(items):
                return items[at]
        return node


def fold_constants(body: Block) -> Block:
    """Return the body, changed in place, with all constant expressions evaluated."""
    module: ast.Module = _Folding().visit(ast.Module(body, []))
    return module.body


def literal(value: object) -> ast.expr:
    """Return the literal of a number, a bool, a string or None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)  # type: ignore[arg-type]


def _is_true(node: ast.expr) -> bool:
    return bool(ast.literal_eval(node))


def _evaluate(node: ast.expr, function: Callable[..., Any] | None, *operands: ast.expr) -> ast.expr:
    """Return the result as a literal, or the node itself if an operand or the result is not one."""
    if function is None or not all(map(is_literal, operands)):
        return node
    try:
        result = function(*map(ast.literal_eval, operands))
    except (ArithmeticError, TypeError, ValueError):
        return node
    # The root of a negative number is complex; no release supports complex numbers.
    if isinstance(result, complex):
        return node
    if isinstance(result, (int, float)) and not -_LARGEST < result < _LARGEST:
        return node
    return literal(result)


def _without_neutral(node: ast.BinOp) -> ast.expr:
    """Simplify `x * 1`, `x + 0`, `x // 1` and `0 * x`; only integers, which keep the type."""
    left, right = _integer(node.left), _integer(node.right)
    if isinstance(node.op, ast.Mult) and 0 in (left, right):
        return ast.Constant(0)
    neutral_left, neutral_right = _NEUTRAL.get(type(node.op), (None, None))
    if left is not None and left == neutral_left:
        return node.right
    if right is not None and right == neutral_right:
        return node.left
    return node


def _integer(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None
