"""A kernel as a graph of values, without the control flow around them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.block_types import Constant, DTypeValue, Tensor
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.type_inference import Types, infer_types


@dataclass(eq=False)
class Value:
    """One value. `operands` are the tensor-valued parts of `node`, each with the value it stands
    for; a value without them is a leaf: a load, a parameter, what a loop carries, or `made` of
    nothing but constants."""

    node: ast.expr
    type: Tensor
    operands: list[tuple[ast.expr, Value]] = field(default_factory=list)
    is_constant: bool = False

    @property
    def operation(self) -> str:
        """`tl.dot`, `.to`, `Add`…"""
        return trees.callee_name(self.node) or type(getattr(self.node, "op", self.node)).__name__


def operations(specimen: Specimen) -> list[Value]:
    """Every operation on tensors, in the order of the text."""
    graph = _Graph(infer_types(specimen))
    graph.block(specimen.function.body, {})
    return graph.operations


class _Graph:
    def __init__(self, types: Types) -> None:
        self._types = types
        self.operations: list[Value] = []

    def block(self, body: trees.Block, bindings: dict[str, Value]) -> None:
        """Follow the statements. What a loop carries round may come from either side."""
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
        """The value of an expression; None when it is no tensor."""
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
        # Their results come from outside: what they take is no part of a slice.
        if isinstance(node, ast.Name) or trees.callee_name(node) in ("tl.load", "tl.program_id"):
            return Value(node, kind)
        # `tl.zeros` and its like take constants alone, and are written wherever they are needed.
        if isinstance(node, ast.Call) and not operands and all(map(self._is_known, parts(node))):
            return Value(node, kind, is_constant=True)
        value = Value(node, kind, operands)
        # Scalars and addresses are no work for the compiler.
        if operands and kind.shape and not kind.pointer:
            taken = [part for part, _ in operands]
            if all(part in taken or self._is_known(part) for part in parts(node)):
                self.operations.append(value)
        return value

    def _is_known(self, part: ast.expr) -> bool:
        if isinstance(part, (ast.Constant, ast.Tuple, ast.List)):
            return True
        return isinstance(self._types.get(part), (Constant, DTypeValue))


def parts(node: ast.expr) -> list[ast.expr]:
    """The expressions that it takes, a method's object among them, in the order of the text."""
    if isinstance(node, ast.Subscript):
        return [node.value]
    if not isinstance(node, ast.Call):
        return trees.child_expressions(node)
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    if trees.callee_name(node).startswith(".") and isinstance(node.func, ast.Attribute):
        return [node.func.value, *arguments]
    return arguments
