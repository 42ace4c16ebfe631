"""Dimensions of tensors that a function's code implies.

`B, T, H, K = q.shape` gives all dimensions, `heads = q.shape[1]` and `assert w.shape[0] == K` one,
and `k.stride(2)` that there are at least three. A tensor that is passed to a callee has the
dimensions that the callee implies.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..pysource.functions import (
    Function,
    calls_in,
    function_tree,
    method_name,
    names_in_scope,
    parameter_names,
    passed_arguments,
    variable_assignments,
    variable_name,
    walk,
)
from . import usage

Symbols = tuple[str, ...]
# Dimensions by their symbol or extent.
Dimensions = tuple[str | int, ...]

# Levels of callees: an operator, its autograd function, the forward, and a function in that.
_MAX_DEPTH = 4
# Symbols of dimensions without a name, by the rank of the tensor.
_DEFAULT_SYMBOLS: dict[int, Symbols] = {
    1: ("D",),
    2: ("T", "D"),
    3: ("B", "T", "D"),
    4: ("B", "T", "H", "K"),
    5: ("B", "T", "H", "K", "V"),
}
_SHAPE_ATTRIBUTES = ("shape", "size", "stride")
# Methods of tensors that keep the shape.
_SAME_SHAPE_METHODS = frozenset(
    "contiguous to detach clone float half bfloat16 int long clamp abs".split()
)


@dataclass
class CodeShape:
    """The dimensions of a tensor; negative indices count from its end.

    Attributes:
        names: the symbol or extent of dimensions by their index.
        rank: the number of dimensions; 0 if it is unknown.
        least_rank: the smallest possible number of dimensions.
        strides: the number of dimensions whose strides are read. A kernel needs all strides to
            address a tensor.
    """

    names: dict[int, str] = field(default_factory=dict)
    rank: int = 0
    least_rank: int = 0
    strides: int = 0

    def fits(self, dimensions: Dimensions) -> bool:
        """Return True if a tensor of these dimensions has all that the code reads."""
        rank = self.rank or (self.strides if self.strides == self.least_rank else 0)
        return len(dimensions) == rank or (not rank and len(dimensions) >= self.least_rank)

    def apply_names(self, dimensions: Dimensions) -> Dimensions:
        """Return dimensions with the names in the code."""
        named = list(dimensions)
        for index, name in self.names.items():
            if -len(named) <= index < len(named):
                named[index] = name
        is_headed = not {"h", "H"}.isdisjoint(named) and "T" not in named
        if len(named) == 4 and is_headed and named[3] in ("d", "D"):
            # `b, h, n, d`: beside a number of heads, the width is that of one head.
            named[3] = "K"
        return tuple(named)

    def dimensions(self) -> Dimensions | None:
        """Return the dimensions; None for a single index, which any tensor has."""
        rank = self.rank or self.least_rank
        if rank > 1 or self.rank or self.strides:
            return self.apply_names(_DEFAULT_SYMBOLS.get(rank, ("K",) * rank))
        return None


def parameter_aliases(node: ast.FunctionDef) -> dict[str, str]:
    """Return the variables that are casts or copies of parameters, each with the parameter.

    For example `rows = x.to(torch.int32).contiguous()`.
    """
    parameters = parameter_names(node)
    aliases: dict[str, str] = {}
    variables: set[str] = set()
    for variable, value in variable_assignments(node):
        while method_name(value) in _SAME_SHAPE_METHODS:
            value = value.func.value  # type: ignore[attr-defined]
        if variable in variables or variable in parameters:
            # The variable has several values.
            aliases.pop(variable, None)
        elif isinstance(value, ast.Name) and value.id in parameters:
            aliases[variable] = value.id
        variables.add(variable)
    return aliases


@functools.cache
def code_shapes(function: Function, depth: int = 0) -> dict[str, CodeShape]:
    """Return the dimensions of parameters that the code of a function and its callees implies."""
    node = function_tree(function)
    if node is None:
        return {}
    shapes = _read_shapes(node)
    if depth < _MAX_DEPTH:
        for variable, shape in _callee_shapes(node, function, depth):
            shapes.add(variable, shape)
    return {name: shape for name, shape in shapes.by_name.items() if name in parameter_names(node)}


def own_shapes(node: ast.FunctionDef) -> dict[str, CodeShape]:
    """Return the dimensions of variables that the code of a function itself implies."""
    return _read_shapes(node).by_name


def _read_shapes(node: ast.FunctionDef) -> _Shapes:
    shapes = _Shapes(node)
    for statement in walk(node):
        shapes.read(statement)
    return shapes


class _Shapes:
    """The shapes in one function.

    Attributes:
        by_name: the shapes of tensors by the variable's name.
    """

    def __init__(self, node: ast.FunctionDef) -> None:
        self.by_name: dict[str, CodeShape] = {}
        self._aliases = parameter_aliases(node)
        # The first line after which a name stands for a tensor of another shape.
        self._last_lines: dict[str, int] = {}
        for part in walk(node):
            if isinstance(part, ast.Assign) and not _keeps_shape(part.value):
                for target in part.targets:
                    for each in getattr(target, "elts", [target]):
                        self._last_lines.setdefault(variable_name(each), part.lineno)

    def _name(self, tensor: ast.AST) -> str:
        """Return the name of a variable; empty if it has been assigned another tensor."""
        name = variable_name(tensor)
        name = self._aliases.get(name, name)
        line = getattr(tensor, "lineno", 0)
        return "" if line > self._last_lines.get(name, line) else name

    def _shape(self, tensor: ast.AST) -> CodeShape | None:
        name = self._name(tensor)
        return self.by_name.setdefault(name, CodeShape()) if name else None

    def add(self, variable: ast.Name, shape: CodeShape) -> None:
        """Add the shape of a variable in a callee, unless the function itself implies one."""
        name = self._name(variable)
        if name:
            self.by_name.setdefault(name, shape)

    def read(self, statement: ast.AST) -> None:
        """Add what a statement or expression implies."""
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
            if isinstance(target, ast.Tuple):
                self._read_unpacked(target, statement.value)
            else:
                self._equate(target, statement.value)
        elif isinstance(statement, ast.Assert):
            self._read_condition(statement.test, ast.Eq)
        elif isinstance(statement, ast.If) and isinstance(statement.body[0], ast.Raise):
            self._read_condition(statement.test, ast.NotEq)
        elif isinstance(statement, (ast.Subscript, ast.Call)):
            self._read_index(statement)

    def _read_condition(self, condition: ast.expr, operator: type[ast.cmpop]) -> None:
        """Add the extents that must be equal after an assertion."""
        for part in walk(condition):
            if isinstance(part, ast.Compare) and isinstance(part.ops[0], operator):
                self._equate(part.left, part.comparators[0])
                self._equate(part.comparators[0], part.left)

    def _read_unpacked(self, target: ast.Tuple, value: ast.expr) -> None:
        """Add `B, T, H = q.shape`, `q.size()`, `q.stride()` or `*q.shape, v.shape[-1]`."""
        names = target.elts
        if isinstance(value, ast.Tuple):
            first = value.elts[0] if value.elts else value
            if not isinstance(first, ast.Starred):
                for name, each in zip(names, value.elts):
                    self._equate(name, each)
                return
            names = names[: len(names) - len(value.elts) + 1]
            value = first.value
        if isinstance(value, ast.Call) and not value.args:
            value = value.func
        if not isinstance(value, ast.Attribute) or value.attr not in _SHAPE_ATTRIBUTES:
            return
        shape = self._shape(value.value)
        if shape is None or shape.rank or not all(map(variable_name, names)):
            return
        shape.rank = len(names)
        if value.attr != "stride":
            for index, symbol in enumerate(map(variable_name, names)):
                if set(symbol) != {"_"}:
                    shape.names[index] = symbol

    def _equate(self, name: ast.expr, extent: ast.expr) -> None:
        """Name the extent in `x.shape[1] == heads`, `x.shape == (B, T)` or `x.ndim == 3`."""
        match extent:
            case ast.Attribute(attr="shape", value=tensor) if isinstance(name, ast.Tuple):
                self._read_unpacked(name, ast.Attribute(tensor, "shape", ast.Load()))
                return
            case (
                ast.Attribute(attr="ndim", value=tensor)
                | ast.Call(func=ast.Attribute(attr="dim", value=tensor))
            ):
                shape = self._shape(tensor)
                rank = getattr(name, "value", None)
                if shape is not None and type(rank) is int:
                    shape.rank = rank
                return
        shape, index, attribute = self._index(extent)
        symbol = self._symbol(name)
        other, other_index, _ = self._index(name)
        is_unnamed = shape is not None and index not in shape.names and not symbol
        if other is not None and is_unnamed and index != other_index:
            # `a.shape[1] == b.shape[0]`
            other.names[other_index] = symbol = "D"
        if shape is not None and attribute != "stride" and symbol and set(symbol) != {"_"}:
            shape.names.setdefault(index, symbol)

    def _symbol(self, node: ast.expr) -> str:
        """Return a variable's name, a number, or the name of another tensor's extent."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return str(node.value)
        shape, index, _ = self._index(node)
        if shape is not None:
            return shape.names.get(index, "")
        return variable_name(node)

    def _read_index(self, node: ast.expr) -> None:
        shape, index, attribute = self._index(node)
        if shape is not None:
            rank = -index if index < 0 else index + 1
            shape.least_rank = max(shape.least_rank, rank)
            if attribute == "stride":
                shape.strides = max(shape.strides, rank)

    def _index(self, node: ast.expr) -> tuple[CodeShape | None, int, str]:
        """Return the parts of `x.shape[1]`, `x.size(1)`, `x.stride(1)` or `x.stride()[1]`."""
        attribute: ast.expr = node
        index_node: ast.expr | None = None
        if isinstance(node, ast.Subscript):
            attribute, index_node = node.value, node.slice
            if isinstance(attribute, ast.Call) and not attribute.args:
                attribute = attribute.func
        elif isinstance(node, ast.Call) and len(node.args) == 1:
            attribute, index_node = node.func, node.args[0]
        if not isinstance(attribute, ast.Attribute) or attribute.attr not in _SHAPE_ATTRIBUTES:
            return None, 0, ""
        try:
            index = ast.literal_eval(index_node)  # type: ignore[arg-type]
        except ValueError:
            return None, 0, ""
        if type(index) is not int:
            return None, 0, ""
        return self._shape(attribute.value), index, attribute.attr


def _keeps_shape(value: ast.expr) -> bool:
    return method_name(value) in _SAME_SHAPE_METHODS or isinstance(value, ast.IfExp)


def _callee_shapes(
    node: ast.FunctionDef, function: Function, depth: int
) -> Iterator[tuple[ast.Name, CodeShape]]:
    """Yield the variables that callees are passed, with their dimensions in the callee."""
    function = inspect.unwrap(function)
    scope = names_in_scope(function)
    for call in calls_in(node):
        if isinstance(call.func, ast.Subscript):
            # A launch: kernels read no shapes.
            continue
        callee, parameters = usage.find_callee(call.func, scope)
        if callee is None or callee is function:
            continue
        shapes = code_shapes(callee, depth + 1)
        for parameter, argument in passed_arguments(call, parameters):
            if isinstance(argument, ast.Name) and parameter in shapes:
                yield argument, shapes[parameter]
