"""How large things are: the sizes that names of dimensions stand for, and sums over them."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Mapping

Sizes = Mapping[str, int]

# Letters as the field uses them: batch, time, heads (of queries, of values), key and value width,
# model width, sequences, memory slots, selected blocks, ranks, vocabulary. Small, for nothing is
# computed; but 16 query heads share 4 of keys, and a chunk of 64 goes into the time eight times.
SIZES = {
    **dict.fromkeys(("B", "N", "R"), 2),
    **dict.fromkeys(("H", "HV", "HK", "G", "W"), 4),
    **dict.fromkeys(("NT", "E"), 8),
    **dict.fromkeys(("HQ", "S"), 16),
    **dict.fromkeys(("K", "V", "M", "P", "BT"), 64),
    **dict.fromkeys(("D", "C"), 256),
    **dict.fromkeys(("T", "TQ", "L"), 512),
}
# What longer names mean, the more telling words first.
_WORDS: tuple[tuple[str, str | int], ...] = (
    (r"vocab|classes", 1024),
    (r"batch|^b$|^bs$", "B"),
    (r"num_?heads?|n_heads?|nheads|n_q_head|^h$|^hq$", "H"),
    (r"n_kv_head", "H"),
    (r"(key|value|k|v)_dim|head_?dim|^hd$|^dh$|^k$|^v$|d_head", "K"),
    (r"seq|len|^t$|^s$|tokens|^n$", "T"),
    (r"hidden|dim|cols|model|features|channels|^d$", "D"),
    (r"rows|^bt$|^m$", 1024),
    (r"experts|^e$", 8),
    (r"top", 2),
)
# A power of two that most kernels take as a width.
_UNKNOWN = 64
_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
}


def size(symbol: str, sizes: Sizes) -> int:
    """The size that the name of a dimension stands for; a middling one for an unknown name."""
    if symbol in sizes:
        return sizes[symbol]
    lowered = symbol.lower()
    for pattern, meaning in _WORDS:
        if re.search(pattern, lowered):
            if isinstance(meaning, str):
                return sizes[meaning]
            return meaning
    return _UNKNOWN


def extent(expression: str, sizes: Sizes) -> int | None:
    """The value of `H*K` or `N+1`, None for a text that is no such expression."""
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body, sizes)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _value(node: ast.expr, sizes: Sizes) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.Name):
        return size(node.id, sizes)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        operate = _OPERATIONS[type(node.op)]
        return int(operate(_value(node.left, sizes), _value(node.right, sizes)))
    raise ValueError("no extent")


def shape(dimensions: Iterable[str | int], sizes: Sizes) -> tuple[int, ...] | None:
    """The extents of symbolic dimensions, None when one of them is no expression."""
    extents = []
    for dimension in dimensions:
        if isinstance(dimension, int):
            extents.append(dimension)
            continue
        worth = extent(dimension, sizes)
        if worth is None:
            return None
        extents.append(worth)
    return tuple(extents)
