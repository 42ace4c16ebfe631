"""Type inference for kernels: dtypes and shapes of all expressions.

It follows arithmetic, loads, dots, reductions and views in the compiler's order. Types that cannot
be inferred stay unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from flacheck.capabilities.repro.kernel.block_types import (
    LANGUAGE,
    BlockPointer,
    Constant,
    DTypeValue,
    Extent,
    IllTyped,
    Several,
    Tensor,
    Type,
    Unknown,
    arithmetic,
    known_block,
)
from flacheck.capabilities.repro.kernel.language_calls import result_type
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import Block, callee_name, child_expressions

Types = Mapping[ast.AST, Type]
Environment = dict[str, Type]

# The key is the tree, by identity: two equal specimens have different nodes.
_WALKS: WeakKeyDictionary[ast.FunctionDef, TypeInference] = WeakKeyDictionary()


def infer_types(specimen: Specimen) -> Types:
    """Return the type of every expression in the kernel's body, by node of `specimen.tree`."""
    return infer_kernel(specimen).types


def infer_kernel(specimen: Specimen) -> TypeInference:
    """Return the inference over the kernel's body: types, extents and faults."""
    inference = _WALKS.get(specimen.function)
    if inference is None:
        environment = {name: argument_type(spec) for name, spec in specimen.args.items()}
        # The module's constants first: a parameter of the same name hides one.
        inference = TypeInference({})
        for name, value in specimen.constants.items():
            inference.environment[name] = inference.of(value)
        inference.environment |= environment
        # Only the kernel's own numbers change.
        inference.extents.clear()
        inference.faults.clear()
        inference.block(specimen.function.body)
        _WALKS[specimen.function] = inference
    return inference


def argument_type(spec: Any) -> Type:
    """Return the type of an argument of a launch."""
    match spec:
        case None | bool() | str():
            return Constant(spec)
        case {"constexpr": {"dtype": dtype}}:
            return DTypeValue(dtype)
        case {"constexpr": value}:
            return Constant(value)
        case {"dtype": dtype}:
            return Tensor("*" + dtype)
        # Triton folds 1 into a constant, but it still has a type.
        case {"int": number} if -(1 << 31) <= number < 1 << 31:
            return Tensor("i32")
        case {"int": _}:
            return Tensor("i64")
        case {"float": _}:
            return Tensor("fp32")
        case {"bool": _}:
            return Tensor("i1")
    return None


class TypeInference:
    """An inference that walks statements in order.

    `environment` has each variable's type at the current statement, `types` the type of each node,
    `extents` the numbers that may be extents, and `faults` the errors on all releases.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.types: dict[ast.AST, Type] = {}
        self.extents: dict[ast.AST, Extent] = {}
        self.faults: list[str] = []

    def block(self, body: Block) -> None:
        for node in body:
            if isinstance(node, ast.For):
                self._for(node)
            elif isinstance(node, (ast.If, ast.While)):
                self._branch(node)
            elif isinstance(node, ast.Assign):
                value = self.of(node.value)
                for target in node.targets:
                    self._bind(target, value)
            else:
                self._of_children(node)

    def _branch(self, node: ast.If | ast.While) -> None:
        self.of(node.test)
        before = dict(self.environment)
        self.block(node.body)
        after, self.environment = self.environment, before
        self.block(node.orelse)
        self.environment = _join_environments(after, self.environment)

    def _bind(self, target: ast.expr, value: Type) -> None:
        if isinstance(target, ast.Name):
            self.environment[target.id] = value
        elif isinstance(target, ast.Tuple):
            items: tuple[Type, ...] = (None,) * len(target.elts)
            if isinstance(value, Several):
                items = value.items
            for part, item in zip(target.elts, items):
                self._bind(part, item)

    def _for(self, node: ast.For) -> None:
        self.of(node.iter)
        self._bind(node.target, Tensor("i32"))
        before = dict(self.environment)
        self.block(node.body)
        # In the loop a variable has a type only if the first and second iteration agree.
        self.environment = _join_environments(before, self.environment)
        self.block(node.body)

    def of(self, node: ast.expr) -> Type:
        """Return the type of an expression; record the types of its parts."""
        visit = getattr(self, "_of_" + type(node).__name__, self._of_children)
        try:
            self.types[node] = visit(node)
        except Unknown:
            self.types[node] = None
        except IllTyped as fault:
            self.faults.append(str(fault))
            self.types[node] = None
        return self.types[node]

    def _of_children(self, node: ast.AST) -> None:
        for child in child_expressions(node):
            self.of(child)

    def _of_Constant(self, node: ast.Constant) -> Type:
        if type(node.value) is not int:
            return Constant(node.value)
        return Constant(self.extents.setdefault(node, Extent(node.value)))

    def _of_Name(self, node: ast.Name) -> Type:
        return self.environment.get(node.id)

    def _of_Tuple(self, node: ast.Tuple | ast.List) -> Type:
        return Several(tuple(self.of(item) for item in node.elts))

    _of_List = _of_Tuple

    def _of_Attribute(self, node: ast.Attribute) -> Type:
        path = ast.unparse(node)
        if path.startswith("tl.") and path[3:] in LANGUAGE:
            return DTypeValue(LANGUAGE[path[3:]])
        owner = self.of(node.value)
        match node.attr, owner:
            case "dtype", Tensor(dtype=name) | BlockPointer(dtype=name):
                return DTypeValue(name)
            case "element_ty", DTypeValue(name=name):
                return DTypeValue(name.removeprefix("*"))
            case "T", Tensor(dtype=name, shape=(rows, columns)):
                return Tensor(name, (columns, rows))
        return None

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Type:
        operand = self.of(node.operand)
        match node.op, operand:
            case ast.USub(), Constant(value=int() | float() as value):
                return Constant(-value)
        return operand

    def _of_BinOp(self, node: ast.BinOp) -> Type:
        return arithmetic(self.of(node.left), self.of(node.right), isinstance(node.op, ast.Div))

    def _of_Compare(self, node: ast.Compare) -> Type:
        left = self.of(node.left)
        rights = [self.of(right) for right in node.comparators]
        return Tensor("i1", arithmetic(left, rights[0]).shape)

    def _of_BoolOp(self, node: ast.BoolOp) -> Type:
        first, *_ = [self.of(value) for value in node.values]
        return known_block(first)

    def _of_IfExp(self, node: ast.IfExp) -> Type:
        self.of(node.test)
        first, second = self.of(node.body), self.of(node.orelse)
        if first != second:
            return None
        return first

    def _of_Subscript(self, node: ast.Subscript) -> Type:
        value, index = self.of(node.value), node.slice
        if isinstance(value, Several):
            at = getattr(index, "value", None)
            if not isinstance(at, int) or at >= len(value.items):
                raise Unknown
            return value.items[at]
        if isinstance(index, ast.Tuple):
            return _index_type(known_block(value), index.elts)
        return _index_type(known_block(value), [index])

    def _of_Call(self, node: ast.Call) -> Type:
        name = callee_name(node)
        positional = [self.of(argument) for argument in node.args]
        keywords = {k.arg: self.of(k.value) for k in node.keywords if k.arg}
        if name.startswith("."):
            assert isinstance(node.func, ast.Attribute)
            positional.insert(0, self.of(node.func.value))
        return result_type(name, positional, keywords)


def _index_type(block: Tensor, items: list[ast.expr]) -> Type:
    """Return the type of `block[:, None]`: None adds an axis of extent 1, `:` keeps an axis."""
    is_new_axis = [isinstance(item, ast.Constant) and item.value is None for item in items]
    if is_new_axis.count(False) != len(block.shape):
        raise Unknown
    extents = iter(block.shape)
    shape = [1 if is_new else next(extents) for is_new in is_new_axis]
    return Tensor(block.dtype, tuple(shape))


def _join_environments(left: Environment, right: Environment) -> Environment:
    """Return the types after two branches; a name that only one branch binds keeps its type."""
    types = {**right, **left}
    for name in left.keys() & right.keys():
        if left[name] != right[name]:
            types[name] = None
    return types
