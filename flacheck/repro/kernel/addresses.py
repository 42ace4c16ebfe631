"""Plain accesses to memory: `pointer + arange`, the form that every release takes and every reader
knows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from flacheck.repro.kernel.syntax import expression

_ARANGE = r"tl\.arange\(0, \d+\)"
_PLAIN = re.compile(
    rf"\w+(?: \+ {_ARANGE}(?:\[[:None, ]+\](?: \* \d+)?)?)*",
)

_POINTERS = "xyzwuv"


def pointer(pointers: dict[str, str], dtype: str) -> str:
    """The parameter of a kernel under construction that points to a dtype: one for each, new where
    there is none.
    """
    if dtype not in pointers:
        pointers[dtype] = _POINTERS[len(pointers)]
    return pointers[dtype]


def parameters(pointers: dict[str, str]) -> dict[str, dict[str, object]]:
    """The arguments for these pointers."""
    return {name: {"dtype": dtype, "align": 16} for dtype, name in pointers.items()}


def offsets(shape: Sequence[int]) -> str:
    """Row-major offsets of a block, as text."""
    terms = []
    stride = 1
    for axis in reversed(range(len(shape))):
        index = ", ".join(":" if at == axis else "None" for at in range(len(shape)))
        term = f"tl.arange(0, {shape[axis]})" + (f"[{index}]" if len(shape) > 1 else "")
        terms.append(term + (f" * {stride}" if stride > 1 else ""))
        stride *= shape[axis]
    return " + ".join(reversed(terms))


def address(pointer: str, shape: Sequence[int]) -> ast.expr:
    """The block of pointers to `shape` elements from `pointer` on; the pointer itself for a scalar."""
    return expression(f"{pointer} + {offsets(shape)}" if shape else pointer)


def load(pointer: str, shape: Sequence[int]) -> ast.expr:
    """`tl.load` of a block."""
    return ast.Call(expression("tl.load"), [address(pointer, shape)], [])


def store(pointer: str, shape: Sequence[int], value: ast.expr) -> ast.Expr:
    """`tl.store` of a block."""
    return ast.Expr(ast.Call(expression("tl.store"), [address(pointer, shape), value], []))


def is_plain(node: ast.expr) -> bool:
    """Whether it is written as `address` writes it."""
    return _PLAIN.fullmatch(ast.unparse(node)) is not None
