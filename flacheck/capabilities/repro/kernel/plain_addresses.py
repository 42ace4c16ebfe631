"""Plain accesses to memory, `pointer + arange`, which every release compiles."""

import ast
import re
from collections.abc import Sequence

from flacheck.capabilities.repro.kernel.syntax_trees import expression

# The text that `ast.unparse` gives for a result of `address`.
_ARANGE = r"tl\.arange\(0, \d+\)"
_EXTENT = re.compile(r"tl\.arange\(0, (\d+)\)")
_PLAIN = re.compile(rf"\w+(?: \+ {_ARANGE}(?:\[[:None, ]+\](?: \* \d+)?)?)*")


def offsets(shape: Sequence[int]) -> str:
    """Return the row-major offsets of a block, as text."""
    terms: list[str] = []
    stride = 1
    for axis in reversed(range(len(shape))):
        term = f"tl.arange(0, {shape[axis]})"
        if len(shape) > 1:
            index = ["None"] * len(shape)
            index[axis] = ":"
            term += f"[{', '.join(index)}]"
        if stride > 1:
            term += f" * {stride}"
        terms.insert(0, term)
        stride *= shape[axis]
    return " + ".join(terms)


def address(pointer: str, shape: Sequence[int]) -> ast.expr:
    """Return the addresses of a block of `shape` at `pointer`; for a scalar the pointer."""
    if not shape:
        return expression(pointer)
    return expression(f"{pointer} + {offsets(shape)}")


def load(pointer: str, shape: Sequence[int]) -> ast.expr:
    """Return a `tl.load` of a block."""
    return ast.Call(expression("tl.load"), [address(pointer, shape)], [])


def store(pointer: str, shape: Sequence[int], value: ast.expr) -> ast.Expr:
    """Return a `tl.store` of a block."""
    return ast.Expr(ast.Call(expression("tl.store"), [address(pointer, shape), value], []))


def shape_of(plain: ast.expr) -> tuple[int, ...]:
    """Return the shape of the block at a plain address."""
    return tuple(map(int, _EXTENT.findall(ast.unparse(plain))))


def is_plain(node: ast.expr) -> bool:
    """Return True if an expression has the form of `address`."""
    return _PLAIN.fullmatch(ast.unparse(node)) is not None
