"""A kernel's source as a fallback sees it: which of its constexprs are tile sizes, and what ties
them together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flacheck.inputs import corpus
from flacheck.model import Kernel
from flacheck.packages.package import Package
from flacheck.source.source import content, read

_SHAPED = ("zeros", "full", "broadcast_to", "reshape", "view")
_BASE, _SHAPE, _STRIDES, _OFFSETS, _BLOCK = range(5)
_POINTER = ("base", "shape", "strides", "offsets", "block_shape")


@dataclass(frozen=True)
class KernelCode:
    """What a kernel's syntax tree says of its parameters.

    `blocks` are the sides of tiles (`tl.arange(0, X)`, a block pointer's block shape, `tl.zeros([X,
    …])`); `tiled` those of which there is more than one, told apart by an index (`i * X`,
    `tl.cdiv(…, X)`, `range(…, X)`); `sizes` those that shape data (a block pointer's shape and
    strides); `steering` those that decide a branch, a loop's bounds or a tile's side; `divided`
    pairs (X, Y) for `X // Y`, `X % Y` and `tl.cdiv(X, Y)`; `dots` is whether it multiplies
    matrices.
    """

    parameters: tuple[str, ...] = ()
    blocks: frozenset[str] = frozenset()
    tiled: frozenset[str] = frozenset()
    sizes: frozenset[str] = frozenset()
    steering: frozenset[str] = frozenset()
    divided: frozenset[tuple[str, str]] = frozenset()
    dots: bool = True


def kernel_code(kernel: Kernel, packages: Mapping[str, Package]) -> KernelCode:
    """What the source of a kernel says; nothing of one whose source cannot be read."""
    source, name = _source(kernel, packages)
    return _code(source, name)


def _source(kernel: Kernel, packages: Mapping[str, Package]) -> tuple[bytes, str]:
    origin = kernel.origin
    if "source" in origin:
        return str(origin["source"]).encode(), str(origin["qualname"])
    if "corpus" in origin:
        return content(corpus.folder() / f"{origin['corpus']}.py"), str(origin["name"])
    package = packages.get(kernel.package or "")
    if package is None or "qualname" not in origin:
        return b"", ""
    root = Path(package.path)
    return content(root / read(root, str(origin.get("module") or origin["import"])).file), str(
        origin["qualname"]
    )


@cache
def _code(source: bytes, name: str) -> KernelCode:
    function = _function(source, name)
    return _read(function) if function else KernelCode()


def _function(source: bytes, qualname: str) -> ast.FunctionDef | None:
    name = qualname.rpartition(".")[2]
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    found = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    return found[-1] if found else None


def _read(function: ast.FunctionDef) -> KernelCode:
    arguments = function.args
    parameters = tuple(
        each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    )
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    both: list[ast.Call | ast.BinOp] = [
        *calls,
        *(node for node in nodes if isinstance(node, ast.BinOp)),
    ]
    blocks = frozenset(name for call in calls for name in _block_names(call)) & frozenset(
        parameters
    )
    return KernelCode(
        parameters,
        blocks,
        frozenset(name for node in both for name in _tiled_names(node)) & blocks,
        frozenset(name for call in calls for name in _size_names(call)) & frozenset(parameters),
        frozenset(name for node in nodes for name in _deciding_names(node)) & frozenset(parameters)
        | blocks,
        frozenset(pair for node in both for pair in _divided(node) if {*pair} <= {*parameters}),
        any(_called(call).startswith("dot") for call in calls),
    )


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _block_names(call: ast.Call) -> Iterator[str]:
    """The names that stand by themselves as the side of a tile."""
    called = _called(call)
    if called == "arange":
        yield from _names(call.args[-1:])
    elif called == "make_block_ptr":
        yield from _names(_elements(_argument(call, _BLOCK)))
    elif called in _SHAPED:
        yield from _names(element for argument in call.args for element in _elements(argument))


def _tiled_names(node: ast.Call | ast.BinOp) -> Iterator[str]:
    """The names that an index is multiplied with, or that something is cut into."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Mult):
            yield from _names([node.left, node.right])
    elif _called(node) == "cdiv":
        yield from _names(node.args[1:])
    elif _called(node) in ("range", "static_range"):
        yield from _names(node.args[2:])


def _size_names(call: ast.Call) -> Iterator[str]:
    if _called(call) == "make_block_ptr":
        for place in (_SHAPE, _STRIDES):
            argument = _argument(call, place)
            yield from _names(ast.walk(argument)) if argument else ()


def _deciding_names(node: ast.AST) -> Iterator[str]:
    """The names in the test of a branch, or in the bounds of a loop."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield from _names(ast.walk(node.test))
    elif isinstance(node, ast.Call) and _called(node) in ("range", "static_range"):
        yield from _names(each for argument in node.args for each in ast.walk(argument))


def _divided(node: ast.Call | ast.BinOp) -> Iterator[tuple[str, str]]:
    sides: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Call) and _called(node) == "cdiv":
        sides = node.args[:2]
    names = tuple(_names(sides))
    if len(names) == 2:
        yield names[0], names[1]


def _argument(call: ast.Call, place: int) -> ast.expr | None:
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    return call.args[place] if len(call.args) > place else named.get(_POINTER[place])


def _elements(node: ast.expr | None) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else []


def _names(nodes: object) -> Iterator[str]:
    return (node.id for node in nodes if isinstance(node, ast.Name))  # type: ignore[attr-defined]
