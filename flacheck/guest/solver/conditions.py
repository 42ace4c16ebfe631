"""Constraints on a call's arguments that give a branch condition another truth."""

from __future__ import annotations

import ast
from typing import Any

import torch

from ..pysource.functions import called_name
from .argument_dataflow import (
    DTYPE,
    GIVE,
    OBJECT,
    OMIT,
    VALUE,
    ArgumentDataflow,
    Constraint,
    Constraints,
    ignore_errors,
)

# The comparisons that hold, or do not, for an integer just below, or just above, the other one. All
# others hold, or do not, for an equal one.
_OPERATOR_BELOW = {True: ast.Lt, False: ast.GtE}
_OPERATORS_ABOVE = {True: (ast.Gt, ast.NotEq), False: (ast.LtE, ast.Eq)}
# Values of one set.
_MAX_VALUES = 6
# Values of built-in types.
_PLAIN_VALUES: dict[Any, Any] = {
    int: 64,
    float: 1.0,
    bool: True,
    str: "none",
    tuple: (1, 1),
    list: [1, 1],
}


class ConditionSolver(ArgumentDataflow):
    """Finds constraints that invert a condition in one frame."""

    def require(self, condition: ast.expr, truth: bool) -> Constraints:
        """Yield constraints that give a condition a truth that it does not have now."""
        match condition:
            case ast.UnaryOp(op=ast.Not()):
                yield from self.require(condition.operand, not truth)
            case ast.BoolOp():
                for part in condition.values:
                    if bool(self._value(part)) != truth:
                        yield from ignore_errors(self.require(part, truth))
            case ast.Compare():
                yield from self._require_comparisons(condition, truth)
            case ast.Call():
                yield from self._require_call(condition, truth)
            case ast.Name():
                yield from self._require_variable(condition, truth)
            case ast.Attribute():
                yield from self.constrain(condition, truth)
            case ast.BinOp() if not truth:
                # `if heads % groups: raise`
                yield from self.constrain(condition, 0)

    def _require_variable(self, condition: ast.Name, truth: bool) -> Constraints:
        """Yield constraints for a variable by the condition that was assigned to it."""
        assignment = self._last_assignment(condition.id)
        if assignment is not None and not isinstance(assignment, tuple):
            yield from self.require(assignment, truth)
        elif isinstance(self._variable(condition.id), bool) or not truth:
            yield from self.constrain(condition, truth)

    def _require_comparisons(self, condition: ast.Compare, truth: bool) -> Constraints:
        """Yield constraints for each pair in `a < b < c`."""
        operands = [condition.left, *condition.comparators]
        for left, operator, right in zip(operands, condition.ops, operands[1:]):
            pair = ast.fix_missing_locations(ast.Compare(left, [operator], [right]))
            holds = bool(self._value(ast.copy_location(pair, condition)))
            if holds != truth:
                yield from ignore_errors(self._require_comparison(left, operator, right, truth))

    def _require_comparison(
        self, left: ast.expr, operator: ast.cmpop, right: ast.expr, truth: bool
    ) -> Constraints:
        """Yield constraints for `a is None`, `a == b`, `a in b`, `a < b` and their opposites."""
        match operator:
            case ast.Is() | ast.IsNot() if _is_none(right):
                must_be_none = isinstance(operator, ast.Is) == truth
                kind = OMIT if must_be_none else GIVE
                for name in self._source_arguments(left):
                    yield Constraint(kind, name)
            case ast.Eq() | ast.Is():
                yield from self._require_equality(left, right, truth)
            case ast.NotEq() | ast.IsNot():
                yield from self._require_equality(left, right, not truth)
            case ast.In() | ast.NotIn():
                must_be_in = isinstance(operator, ast.In) == truth
                if must_be_in:
                    for value in list(self._value(right))[:_MAX_VALUES]:
                        yield from self.constrain(left, value)
            case _:
                yield from self._require_order(left, operator, right, truth)

    def _require_equality(self, left: ast.expr, right: ast.expr, truth: bool) -> Constraints:
        """Yield constraints that make two values equal, or unequal."""
        if truth:
            yield from self._match_strides(left, right)
            yield from self.constrain(left, self._value(right))
            yield from self.constrain(right, self._value(left))
        else:
            yield from self._require_unequal(left)

    def _require_unequal(self, left: ast.expr) -> Constraints:
        """Yield constraints that increment the left one of two equal numbers."""
        value = self._value(left)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from self.constrain(left, value + 1)

    def _match_strides(self, left: ast.expr, right: ast.expr) -> Constraints:
        """Yield the other's shape for each of two tensors that must have one stride in common."""
        left_tensor = self._stride_tensor(left)
        right_tensor = self._stride_tensor(right)
        if left_tensor is not None and right_tensor is not None:
            right_shape = tuple(self._value(right_tensor).shape)
            yield from self._constrain_shape(left_tensor, right_shape)
            left_shape = tuple(self._value(left_tensor).shape)
            yield from self._constrain_shape(right_tensor, left_shape)

    def _stride_tensor(self, node: ast.expr) -> ast.expr | None:
        """Return the tensor whose stride an expression is."""
        if isinstance(node, ast.Name):
            assignment = self._last_assignment(node.id)
            if isinstance(assignment, ast.expr):
                node = assignment
        match node:
            case ast.Call(func=ast.Attribute(value=tensor, attr="stride")):
                return tensor
            case _:
                return None

    def _require_order(
        self, left: ast.expr, operator: ast.cmpop, right: ast.expr, truth: bool
    ) -> Constraints:
        """Yield constraints that move one of two numbers to the other side of the other one."""
        left_value = self._value(left)
        right_value = self._value(right)
        if not isinstance(left_value, (int, float)):
            return
        if not isinstance(right_value, (int, float)):
            return
        is_strict = isinstance(operator, (ast.Lt, ast.Gt)) == truth
        left_is_less = isinstance(operator, (ast.Lt, ast.LtE)) == truth
        step = int(is_strict)
        if not left_is_less:
            step = -step
        yield from self.constrain(left, right_value - step)
        yield from self.constrain(right, left_value + step)

    def _require_call(self, condition: ast.Call, truth: bool) -> Constraints:
        """Yield constraints for `isinstance(x, C)`, `all(…)`, `any(…)` and `x.is_complex()`."""
        name = called_name(condition)
        if name == "isinstance" and truth:
            classes = self._value(condition.args[1])
            if not isinstance(classes, tuple):
                classes = (classes,)
            for instance_class in classes:
                yield from self._require_instance(condition.args[0], instance_class)
        elif name == "bool" and len(condition.args) == 1:
            yield from self.require(condition.args[0], truth)
        elif name in ("all", "any") and not condition.args:
            if isinstance(condition.func, ast.Attribute):
                yield from self._require_elements(condition.func.value, truth)
        elif name in ("all", "any"):
            elements = condition.args[0]
            if isinstance(elements, (ast.GeneratorExp, ast.ListComp)):
                yield from self._require_each(elements, truth)
        elif name == "is_complex" and truth:
            operands = list(condition.args)
            if isinstance(condition.func, ast.Attribute):
                operands.append(condition.func.value)
            for operand in operands:
                for argument in self._source_arguments(operand):
                    yield Constraint(DTYPE, argument, torch.complex64)

    def _require_elements(self, elements: ast.expr, truth: bool) -> Constraints:
        """Yield an integer tensor for `(lengths < 1).any()` whose elements all compare alike."""
        match elements:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                bound = self._value(right)
            case _:
                return
        element = bound
        if type(operator) is _OPERATOR_BELOW[truth]:
            element = bound - 1
        elif type(operator) in _OPERATORS_ABOVE[truth]:
            element = bound + 1
        yield from self._constrain_elements(left, element)

    def _require_instance(self, node: ast.expr, instance_class: Any) -> Constraints:
        """Yield a value, a tensor or an object of a class."""
        for name in self._source_arguments(node):
            if instance_class in _PLAIN_VALUES:
                yield Constraint(VALUE, name, _PLAIN_VALUES[instance_class])
            elif instance_class is torch.Tensor:
                yield Constraint(GIVE, name)
            elif isinstance(instance_class, type):
                yield Constraint(OBJECT, name, instance_class)

    def _require_each(
        self, comprehension: ast.GeneratorExp | ast.ListComp, truth: bool
    ) -> Constraints:
        """Yield constraints for each element of `all(t.dtype == q.dtype for t in (k, v))`."""
        loop = comprehension.generators[0]
        if not isinstance(loop.target, ast.Name):
            return
        for element in getattr(loop.iter, "elts", []):
            substitution = _NameSubstitution(loop.target.id, element)
            condition = substitution.visit(_copy_expression(comprehension.elt))
            yield from ignore_errors(self.require(ast.fix_missing_locations(condition), truth))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _copy_expression(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


class _NameSubstitution(ast.NodeTransformer):
    """Replaces a name in an expression by another expression."""

    def __init__(self, name: str, replacement: ast.expr) -> None:
        self._name = name
        self._replacement = replacement

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == self._name:
            return self._replacement
        return node
