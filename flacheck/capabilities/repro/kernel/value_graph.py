"""A kernel as a graph of values, without control flow."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.expression_types import Constant, DTypeValue, Tensor, Types
from flacheck.capabilities.repro.kernel.specimen import Specimen


@dataclass(eq=False)
class Value:
    """One value of the graph.

    `operands` are the tensor-valued parts of `node`, each with its value. A value without operands
    is a leaf: a load, a parameter, a variable that a loop carries, or an expression of constants
    (`is_constant`).
    """

    node: ast.expr
    type: Tensor
    operands: list[tuple[ast.expr, Value]] = field(default_factory=list)
    is_constant: bool = False

    @property
    def operation(self) -> str:
        """The name of the operation, such as `tl.dot`, `.to` or `Add`."""
        return trees.callee_name(self.node) or type(getattr(self.node, "op", self.node)).__name__


def operations(specimen: Specimen) -> list[Value]:
    """Return every operation on tensors, in the order of the text."""
    graph = _Graph(specimen.types)
    graph.block(specimen.function.body, {})
    return graph.operations


class _Graph:
    def __init__(self, types: Types) -> None:
        self._types = types
        self.operations: list[Value] = []

    def block(self, body: trees.Block, bindings: dict[str, Value]) -> None:
        """Follow the statements; a variable that a loop or branch binds loses its value."""
        for statement in body:
            if isinstance(statement, trees.COMPOUND):
                for name in trees.writes(statement):
                    bindings.pop(name, None)
                self.block(statement.body, dict(bindings))
                self.block(statement.orelse, dict(bindings))
                continue
            last = None
            for node in trees.child_expressions(statement):
                last = self.of(node, bindings)
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                bindings.pop(statement.targets[0].id, None)
                if last is not None:
                    bindings[statement.targets[0].id] = last

    def of(self, node: ast.expr, bindings: dict[str, Value]) -> Value | None:
        """Return the value of an expression; None if it is not a tensor."""
        if isinstance(node, ast.Name) and node.id in bindings:
            return bindings[node.id]
        operands = []
        for part in parts(node):
            operand = self.of(part, bindings)
            if operand is not None:
                operands.append((part, operand))
        kind = self._types.get(node)
        if not isinstance(kind, Tensor):
            return None
        # Their results come from outside, so their arguments are not part of a slice.
        if isinstance(node, ast.Name) or trees.callee_name(node) in ("tl.load", "tl.program_id"):
            return Value(node, kind)
        # Calls with constants alone, such as `tl.zeros`, can be repeated at each use.
        if isinstance(node, ast.Call) and not operands and all(map(self._is_constant, parts(node))):
            return Value(node, kind, is_constant=True)
        value = Value(node, kind, operands)
        if self._is_operation(value):
            self.operations.append(value)
        return value

    def _is_operation(self, value: Value) -> bool:
        """Return False for scalars, addresses and values with an unknown scalar operand."""
        if not value.operands or not value.type.shape or value.type.pointer:
            return False
        tensors = [part for part, _ in value.operands]
        others = [part for part in parts(value.node) if part not in tensors]
        return all(map(self._is_constant, others))

    def _is_constant(self, part: ast.expr) -> bool:
        if isinstance(part, (ast.Constant, ast.Tuple, ast.List)):
            return True
        return isinstance(self._types.get(part), (Constant, DTypeValue))


def parts(node: ast.expr) -> list[ast.expr]:
    """Return the operands of an expression, a method's object first, in the order of the text."""
    if isinstance(node, ast.Subscript):
        return [node.value]
    if not isinstance(node, ast.Call):
        return trees.child_expressions(node)
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    if trees.callee_name(node).startswith(".") and isinstance(node.func, ast.Attribute):
        return [node.func.value, *arguments]
    return arguments
