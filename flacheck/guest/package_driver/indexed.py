"""The dimensions of tensors by what a function asks of them one by one: `heads = q.shape[1]`,
`k.stride(2)`, `rows, columns = w.stride()`. The highest index tells how many dimensions there are,
and the variable that an extent is kept in says what it means."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Symbols = tuple[str, ...]

# What dimensions that nobody names are, by how many the tensor has.
_USUAL: dict[int, Symbols] = {
    1: ("D",),
    2: ("T", "D"),
    3: ("B", "T", "D"),
    4: ("B", "T", "H", "K"),
    5: ("B", "T", "H", "K", "V"),
}
_OF_SHAPES = ("shape", "size", "stride")
# Methods of tensors whose results are shaped as these are.
_KEEPING = frozenset("contiguous to detach clone float half bfloat16 int long clamp abs".split())


@dataclass(frozen=True)
class Indexed:
    """A tensor's dimensions. They are `all` where each one's stride is asked for, as a kernel is
    told how to walk through a tensor; else there may be more."""

    dimensions: Symbols
    all: bool


@dataclass
class _Asked:
    """What was asked of one tensor: the indices, negative ones from its end, those of strides, and
    the names of extents by index."""

    indices: set[int] = field(default_factory=set)
    strides: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)

    def told(self) -> Indexed | None:
        """None where one index says too little: `x.shape[0]` is asked of every tensor."""
        rank = max((_least_rank(index) for index in self.indices), default=0)
        last_stride = max(self.strides, default=-1)
        if rank not in _USUAL or (rank == 1 and last_stride < 0):
            return None
        symbols = list(_USUAL[rank])
        for index, name in self.names.items():
            symbols[index] = name
        return Indexed(tuple(symbols), last_stride == rank - 1)


def _least_rank(index: int) -> int:
    """How many dimensions a tensor has at least that has this one."""
    if index < 0:
        return -index
    return index + 1


def indexed(node: ast.FunctionDef) -> dict[str, Indexed]:
    """Parameter → its dimensions, where the function asks for enough of them."""
    own = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    # Another tensor of the same name is another tensor.
    own -= set(_reassigned(node))
    asked = {name: _Asked() for name in own}
    for part in ast.walk(node):
        if isinstance(part, ast.Assign):
            for tensor, index, name in _named(part):
                if tensor in asked:
                    asked[tensor].names.setdefault(index, name)
            tensor, rank = _strides(part)
            if tensor in asked:
                asked[tensor].indices.update(range(rank))
                asked[tensor].strides.update(range(rank))
        if isinstance(part, (ast.Subscript, ast.Call)):
            tensor, kind, place = _question(part)
            if tensor in asked and place is not None:
                asked[tensor].indices.add(place)
                if kind == "stride":
                    asked[tensor].strides.add(place)
    told = {name: each.told() for name, each in asked.items()}
    return {name: each for name, each in told.items() if each is not None}


def renamed(node: ast.FunctionDef) -> dict[str, str]:
    """What else parameters are called in a function, once they were cast or copied:
    `rows = x.to(torch.int32).contiguous()`."""
    parameters = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
    names: dict[str, str] = {}
    given: set[str] = set()
    for part in ast.walk(node):
        if not isinstance(part, ast.Assign) or not isinstance(part.targets[0], ast.Name):
            continue
        name, value = part.targets[0].id, part.value
        while (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr in _KEEPING
        ):
            value = value.func.value
        if name in given or name in parameters:
            # It is given something twice.
            names.pop(name, None)
        elif isinstance(value, ast.Name) and value.id in parameters:
            names[name] = value.id
        given.add(name)
    return names


def _reassigned(node: ast.FunctionDef) -> Iterator[str]:
    """Names that are given something of another shape: `x = x.view(-1, n)`."""
    for part in ast.walk(node):
        if not isinstance(part, ast.Assign):
            continue
        for target in part.targets:
            if isinstance(target, ast.Name):
                called = getattr(getattr(part.value, "func", None), "attr", "")
                if called not in _KEEPING and not isinstance(part.value, ast.IfExp):
                    yield target.id


def _named(statement: ast.Assign) -> Iterator[tuple[str, int, str]]:
    """`heads = q.shape[1]` and `batch, heads = q.size(0), q.size(1)`."""
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts))
    for name, extent in pairs:
        tensor, kind, index = _question(extent)
        is_named = isinstance(name, ast.Name) and set(name.id) != {"_"}
        if isinstance(name, ast.Name) and is_named and index is not None and kind != "stride":
            yield tensor, index, name.id


def _strides(statement: ast.Assign) -> tuple[str, int]:
    """The tensor of `rows, columns = x.stride()`, and how many strides it has."""
    target, value = statement.targets[0], statement.value
    is_whole = isinstance(value, ast.Call) and not value.args
    asked = getattr(value, "func", None)
    if not isinstance(target, ast.Tuple) or not is_whole or not isinstance(asked, ast.Attribute):
        return "", 0
    starred = any(isinstance(each, ast.Starred) for each in target.elts)
    if asked.attr != "stride" or starred or not isinstance(asked.value, ast.Name):
        return "", 0
    return asked.value.id, len(target.elts)


def _question(node: ast.AST) -> tuple[str, str, int | None]:
    """The tensor, what is asked of it, and the index, in `x.shape[1]`, `x.size(1)`, `x.stride(1)`
    and `x.stride()[1]`; no index where nothing of the kind is asked."""
    asked: ast.AST = node
    index: ast.AST | None = None
    if isinstance(node, ast.Subscript):
        asked, index = node.value, node.slice
        if isinstance(asked, ast.Call) and not asked.args:
            asked = asked.func
    elif isinstance(node, ast.Call) and len(node.args) == 1:
        asked, index = node.func, node.args[0]
    if not isinstance(asked, ast.Attribute) or asked.attr not in _OF_SHAPES:
        return "", "", None
    if not isinstance(asked.value, ast.Name):
        return "", "", None
    try:
        number = ast.literal_eval(index)  # type: ignore[arg-type]
    except ValueError:
        return "", "", None
    if type(number) is not int:
        return "", "", None
    return asked.value.id, asked.attr, number
