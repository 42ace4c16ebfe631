"""Dimensions of tensors by the indices that a function reads of their shapes and strides.

For example `heads = q.shape[1]`, `k.stride(2)` and `rows, columns = w.stride()`. The highest index
gives the number of dimensions, and the variable that an extent is assigned to gives its meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..pysource.functions import method_name, parameter_names, variable_assignments, walk

Symbols = tuple[str, ...]

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


@dataclass(frozen=True)
class IndexShape:
    """The dimensions of a tensor.

    Attributes:
        is_complete: True if the function reads each dimension's stride, which a kernel needs to
            address the tensor. Otherwise there may be more dimensions.
    """

    dimensions: Symbols
    is_complete: bool


@dataclass(frozen=True)
class _IndexRead:
    """A read of one element of a tensor's shape or strides; the attribute is one of both."""

    tensor: str
    attribute: str
    index: int


@dataclass
class _TensorReads:
    """All reads of one tensor; negative indices count from its end.

    Attributes:
        names: the variables that extents are assigned to, by index.
    """

    indices: set[int] = field(default_factory=set)
    stride_indices: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)

    def shape(self) -> IndexShape | None:
        """Return the tensor's dimensions; None for a single index, which any tensor has."""
        rank = max((_least_rank(index) for index in self.indices), default=0)
        last_stride = max(self.stride_indices, default=-1)
        if rank not in _DEFAULT_SYMBOLS or (rank == 1 and last_stride < 0):
            return None
        symbols = list(_DEFAULT_SYMBOLS[rank])
        for index, name in self.names.items():
            symbols[index] = name
        return IndexShape(tuple(symbols), last_stride == rank - 1)


def _least_rank(index: int) -> int:
    """Return the smallest rank of a tensor that has a dimension of this index."""
    if index < 0:
        return -index
    return index + 1


def index_shapes(node: ast.FunctionDef) -> dict[str, IndexShape]:
    """Return the parameters of which a function reads enough dimensions, with their shapes."""
    # After an assignment of another tensor, the name stands for that tensor.
    names = set(parameter_names(node)) - set(_reassigned_names(node))
    reads = {name: _TensorReads() for name in names}
    for part in walk(node):
        if isinstance(part, ast.Assign):
            for read, name in _assigned_extents(part):
                if read.tensor in reads:
                    reads[read.tensor].names.setdefault(read.index, name)
            tensor, rank = _unpacked_strides(part)
            if tensor in reads:
                reads[tensor].indices.update(range(rank))
                reads[tensor].stride_indices.update(range(rank))
        elif isinstance(part, (ast.Subscript, ast.Call)):
            index_read = _index_read(part)
            if index_read is not None and index_read.tensor in reads:
                tensor_reads = reads[index_read.tensor]
                tensor_reads.indices.add(index_read.index)
                if index_read.attribute == "stride":
                    tensor_reads.stride_indices.add(index_read.index)
    shapes = {}
    for name, tensor_reads in reads.items():
        shape = tensor_reads.shape()
        if shape is not None:
            shapes[name] = shape
    return shapes


def parameter_aliases(node: ast.FunctionDef) -> dict[str, str]:
    """Return the variables that are casts or copies of parameters, each with the parameter.

    For example `rows = x.to(torch.int32).contiguous()`.
    """
    parameters = {parameter.arg for parameter in (*node.args.args, *node.args.kwonlyargs)}
    aliases: dict[str, str] = {}
    variables: set[str] = set()
    for variable, assigned_value in variable_assignments(node):
        value = _without_casts(assigned_value)
        if variable in variables or variable in parameters:
            # The variable has several values.
            aliases.pop(variable, None)
        elif isinstance(value, ast.Name) and value.id in parameters:
            aliases[variable] = value.id
        variables.add(variable)
    return aliases


def _without_casts(value: ast.expr) -> ast.expr:
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in _SAME_SHAPE_METHODS:
            break
        value = value.func.value
    return value


def _reassigned_names(node: ast.FunctionDef) -> Iterator[str]:
    """Yield names that are assigned a value of another shape: `x = x.view(-1, n)`."""
    for part in walk(node):
        if not isinstance(part, ast.Assign):
            continue
        if method_name(part.value) in _SAME_SHAPE_METHODS or isinstance(part.value, ast.IfExp):
            continue
        for target in part.targets:
            if isinstance(target, ast.Name):
                yield target.id


def _assigned_extents(statement: ast.Assign) -> Iterator[tuple[_IndexRead, str]]:
    """Yield the extents in `heads = q.shape[1]` and `batch, heads = q.size(0), q.size(1)`."""
    target = statement.targets[0]
    value = statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts))
    for variable, extent in pairs:
        if not isinstance(variable, ast.Name) or set(variable.id) == {"_"}:
            continue
        read = _index_read(extent)
        if read is not None and read.attribute != "stride":
            yield read, variable.id


def _unpacked_strides(statement: ast.Assign) -> tuple[str, int]:
    """Return the tensor of `rows, columns = x.stride()` and the number of its strides."""
    target = statement.targets[0]
    value = statement.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Call) or value.args:
        return "", 0
    method = value.func
    if not isinstance(method, ast.Attribute) or method.attr != "stride":
        return "", 0
    if not isinstance(method.value, ast.Name):
        return "", 0
    if any(isinstance(element, ast.Starred) for element in target.elts):
        return "", 0
    return method.value.id, len(target.elts)


def _index_read(node: ast.AST) -> _IndexRead | None:
    """Return the read in `x.shape[1]`, `x.size(1)`, `x.stride(1)` or `x.stride()[1]`."""
    attribute: ast.AST = node
    index_node: ast.AST | None = None
    if isinstance(node, ast.Subscript):
        attribute = node.value
        index_node = node.slice
        if isinstance(attribute, ast.Call) and not attribute.args:
            attribute = attribute.func
    elif isinstance(node, ast.Call) and len(node.args) == 1:
        attribute = node.func
        index_node = node.args[0]
    if not isinstance(attribute, ast.Attribute) or attribute.attr not in _SHAPE_ATTRIBUTES:
        return None
    if not isinstance(attribute.value, ast.Name):
        return None
    try:
        index = ast.literal_eval(index_node)  # type: ignore[arg-type]
    except ValueError:
        return None
    if type(index) is not int:
        return None
    return _IndexRead(attribute.value.id, attribute.attr, index)
