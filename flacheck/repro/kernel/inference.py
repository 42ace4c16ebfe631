"""The types of a kernel's expressions, found by walking it as the compiler does, without one.

The walk knows what reduction needs to propose well-typed candidates: dtypes and shapes through
arithmetic, loads, dots, reductions and views. What it does not know it leaves unknown.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from flacheck.model import canonical
from flacheck.repro.kernel.calls import arithmetic, given
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import Block, called
from flacheck.repro.kernel.types import (
    LANGUAGE,
    BlockPointer,
    DType,
    Extent,
    IllTyped,
    Known,
    Tensor,
    Tuple,
    Type,
)

Environment = dict[str, "Type | None"]


def inferred(specimen: Specimen) -> dict[ast.AST, Type | None]:
    """The type of every expression in the kernel's body, by node of `specimen.tree`."""
    return walked(specimen).types


def walked(specimen: Specimen) -> Inference:
    """The kernel's body with all that can be found out about it."""
    return _walked(specimen.function, canonical(list(specimen.args.items())))


@lru_cache(maxsize=64)
def _walked(function: ast.FunctionDef, args: str) -> Inference:
    """By the tree's identity: of two equal specimens each has nodes of its own."""
    walk = Inference({name: parameter(spec) for name, spec in json.loads(args)})
    walk.block(function.body)
    return walk


def parameter(spec: Any) -> Type | None:
    """The type of an argument of a launch."""
    if spec is None or isinstance(spec, (bool, str)):
        return Known(spec)
    if not isinstance(spec, Mapping):
        return None
    if "constexpr" in spec:
        value = spec["constexpr"]
        return (
            DType(value["dtype"])
            if isinstance(value, Mapping) and "dtype" in value
            else Known(value)
        )
    if "dtype" in spec:
        return Tensor("*" + spec["dtype"])
    if "int" in spec:
        # Triton folds 1 into a constant; it is typed all the same.
        return Tensor("i32" if -(1 << 31) <= spec["int"] < 1 << 31 else "i64")
    return Tensor("fp32") if "float" in spec else Tensor("i1") if "bool" in spec else None


class Inference:
    """Walks statements in order; `environment` holds each variable's type at that point, `types`
    each node's.
    """

    def __init__(self, environment: Mapping[str, Type | None]) -> None:
        self.environment: Environment = dict(environment)
        self.types: dict[ast.AST, Type | None] = {}
        self.faults: list[str] = []
        self.extents: dict[ast.AST, Extent] = {}

    def block(self, body: Block) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For):
            self._for(node)
        elif isinstance(node, (ast.If, ast.While)):
            self.of(node.test)
            self._branches(node.body, node.orelse)
        elif isinstance(node, ast.Assign):
            value = self.of(node.value)
            for target in node.targets:
                self._bind(target, value)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.of(child)

    def _bind(self, target: ast.expr, value: Type | None) -> None:
        if isinstance(target, ast.Name):
            self.environment[target.id] = value
        elif isinstance(target, ast.Tuple):
            items = value.items if isinstance(value, Tuple) else (None,) * len(target.elts)
            for part, item in zip(target.elts, items):
                self._bind(part, item)

    def _for(self, node: ast.For) -> None:
        self.of(node.iter)
        self._bind(node.target, Tensor("i32"))
        before = dict(self.environment)
        self.block(node.body)
        self.environment = _joined(before, self.environment)
        self.block(node.body)

    def _branches(self, body: Block, orelse: Block) -> None:
        before = dict(self.environment)
        self.block(body)
        after, self.environment = self.environment, dict(before)
        self.block(orelse)
        self.environment = _joined(after, self.environment)

    def of(self, node: ast.expr) -> Type | None:
        """The type of an expression; of its parts on the way."""
        visit = getattr(self, "_of_" + type(node).__name__, self._unknown)
        try:
            found: Type | None = visit(node)
        except IllTyped as fault:
            self.faults.append(str(fault))
            found = None
        self.types[node] = found
        return found

    def _unknown(self, node: ast.expr) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.of(child)

    def _of_Constant(self, node: ast.Constant) -> Type:
        if type(node.value) is not int:
            return Known(node.value)
        return Known(self.extents.setdefault(node, Extent(node.value, node)))

    def _of_Name(self, node: ast.Name) -> Type | None:
        return self.environment.get(node.id)

    def _of_Tuple(self, node: ast.Tuple | ast.List) -> Type:
        return Tuple(tuple(self.of(item) for item in node.elts))

    _of_List = _of_Tuple

    def _of_Attribute(self, node: ast.Attribute) -> Type | None:
        path = ast.unparse(node)
        if path.startswith("tl.") and path[3:] in LANGUAGE:
            return DType(LANGUAGE[path[3:]])
        owner = self.of(node.value)
        if node.attr == "dtype":
            return DType(owner.dtype) if isinstance(owner, (Tensor, BlockPointer)) else None
        if node.attr == "element_ty" and isinstance(owner, DType):
            return DType(owner.name.removeprefix("*"))
        if node.attr == "T" and isinstance(owner, Tensor) and len(owner.shape) == 2:
            return Tensor(owner.dtype, owner.shape[::-1])
        return None

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Type | None:
        operand = self.of(node.operand)
        if (
            isinstance(operand, Known)
            and isinstance(node.op, ast.USub)
            and isinstance(operand.value, (int, float))
        ):
            return Known(-operand.value)
        return operand

    def _of_BinOp(self, node: ast.BinOp) -> Type | None:
        return arithmetic(self.of(node.left), self.of(node.right), isinstance(node.op, ast.Div))

    def _of_Compare(self, node: ast.Compare) -> Type | None:
        left = self.of(node.left)
        rights = [self.of(c) for c in node.comparators]
        both = arithmetic(left, rights[0])
        return Tensor("i1", both.shape) if isinstance(both, Tensor) else None

    def _of_BoolOp(self, node: ast.BoolOp) -> Type | None:
        found = [self.of(value) for value in node.values]
        return found[0] if isinstance(found[0], Tensor) else None

    def _of_IfExp(self, node: ast.IfExp) -> Type | None:
        self.of(node.test)
        first, second = self.of(node.body), self.of(node.orelse)
        return first if first == second else None

    def _of_Subscript(self, node: ast.Subscript) -> Type | None:
        value = self.of(node.value)
        if (
            isinstance(value, Tuple)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
        ):
            return value.items[node.slice.value] if node.slice.value < len(value.items) else None
        if not isinstance(value, Tensor):
            return None
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        left = iter(value.shape)
        shape = tuple(1 if _is_none(item) else next(left, 0) for item in items)
        return Tensor(value.dtype, shape) if 0 not in shape and not list(left) else None

    def _of_Call(self, node: ast.Call) -> Type | None:
        name = called(node)
        positional = [self.of(a) for a in node.args]
        keywords = {k.arg: self.of(k.value) for k in node.keywords if k.arg}
        if name.startswith("."):
            assert isinstance(node.func, ast.Attribute)
            positional.insert(0, self.of(node.func.value))
        return given(name, positional, keywords)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _joined(left: Environment, right: Environment) -> Environment:
    """What is known after two ways of getting here."""
    missing = {
        name: value
        for name, value in {**left, **right}.items()
        if (name in left) != (name in right)
    }
    return missing | {
        name: left[name] if left[name] == right[name] else None for name in left if name in right
    }
