"""A kernel as a graph of values: what each operation takes, across statements, without the control
flow around it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from flacheck.repro.kernel.inference import inferred
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import COMPOUND, Block, called, writes
from flacheck.repro.kernel.types import DType, Known, Tensor, Type

Types = Mapping[ast.AST, "Type | None"]


@dataclass(eq=False)
class Value:
    """One value. `operands` are the tensor-valued parts of `node`, each with the value it stands
    for; a value without them is a leaf: a load, a parameter, what a loop carries, or `made` of
    nothing but constants.
    """

    node: ast.expr
    type: Tensor
    operands: list[tuple[ast.expr, Value]] = field(default_factory=list)
    made: bool = False

    @property
    def operation(self) -> str:
        """`tl.dot`, `.to`, `+`…"""
        return called(self.node) or type(getattr(self.node, "op", self.node)).__name__


def values(specimen: Specimen) -> list[Value]:
    """Every operation on tensors, in the order of the text."""
    graph = _Graph(inferred(specimen))
    graph.block(specimen.function.body, {})
    return graph.operations


Environment = dict[str, Value]


class _Graph:
    def __init__(self, types: Types) -> None:
        self._types = types
        self.operations: list[Value] = []

    def block(self, body: Block, environment: Environment) -> None:
        """Follow the statements. What a loop carries round is forgotten: it may come from either
        side.
        """
        for statement in body:
            if isinstance(statement, COMPOUND):
                carried = writes(statement)
                inner = {n: v for n, v in environment.items() if n not in carried}
                self.block(statement.body, inner)
                self.block(
                    statement.orelse, {n: v for n, v in environment.items() if n not in carried}
                )
                for name in carried:
                    environment.pop(name, None)
            else:
                self._statement(statement, environment)

    def _statement(self, statement: ast.stmt, environment: Environment) -> None:
        found = [
            self.of(n, environment)
            for n in ast.iter_child_nodes(statement)
            if isinstance(n, ast.expr)
        ]
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Name):
            environment.pop(target.id, None)
            if found[-1] is not None:
                environment[target.id] = found[-1]

    def of(self, node: ast.expr, environment: Environment) -> Value | None:
        """The value of an expression; None when it is no tensor."""
        if isinstance(node, ast.Name) and node.id in environment:
            return environment[node.id]
        found = self._types.get(node)
        operands = [
            (part, v) for part in parts(node) if (v := self.of(part, environment)) is not None
        ]
        if not isinstance(found, Tensor):
            return None
        if isinstance(node, ast.Name) or called(node) in ("tl.load", "tl.program_id"):
            return Value(node, found)
        if isinstance(node, ast.Call) and not operands and all(map(self._known, parts(node))):
            return Value(node, found, made=True)
        value = Value(node, found, operands)
        if self._is_operation(value):
            self.operations.append(value)
        return value

    def _is_operation(self, value: Value) -> bool:
        """Whether the compiler has work with it: not on scalars, not on addresses; its parts must
        be understood.
        """
        understood = all(self._understood(part, value) for part in parts(value.node))
        return (
            bool(value.operands)
            and bool(value.type.shape)
            and not value.type.pointer
            and understood
        )

    def _understood(self, part: ast.expr, value: Value) -> bool:
        return self._known(part) or any(part is operand for operand, _ in value.operands)

    def _known(self, part: ast.expr) -> bool:
        constant = isinstance(part, (ast.Constant, ast.Tuple, ast.List))
        return constant or isinstance(self._types.get(part), (Known, DType))


def parts(node: ast.expr) -> list[ast.expr]:
    """The expressions directly below it, the object of a method among them, in the order of the
    text.
    """
    if isinstance(node, ast.Call):
        owner = (
            [node.func.value]
            if called(node).startswith(".") and isinstance(node.func, ast.Attribute)
            else []
        )
        return [*owner, *node.args, *(k.value for k in node.keywords)]
    if isinstance(node, ast.Subscript):
        return [node.value]
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
