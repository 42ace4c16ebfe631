"""How large things are: what the names of dimensions stand for, and what an expression over them
comes to.
"""

from __future__ import annotations

import ast
import operator
import re

# Letters as the field uses them: batch, time, heads (of queries, of values), key and value width,
# model width, sequences, memory slots, selected blocks, ranks, vocabulary.
SIZES = {
    "B": 2,
    "T": 512,
    "H": 4,
    "HQ": 16,
    "HV": 4,
    "HK": 4,
    "K": 64,
    "V": 64,
    "D": 256,
    "N": 2,
    "M": 64,
    "S": 16,
    "R": 2,
    "L": 512,
    "TQ": 512,
    "W": 4,
    "G": 4,
    "C": 256,
    "NT": 8,
    "BT": 64,
    "P": 64,
    "E": 8,
}
_WORDS = (
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
_UNKNOWN = 64
_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
}


def size(symbol: str, sizes: dict) -> int:
    """What a name of a dimension stands for: as it is, by what its word means, else some middling
    size.
    """
    if symbol in sizes:
        return sizes[symbol]
    lowered = symbol.lower()
    for pattern, meaning in _WORDS:
        if re.search(pattern, lowered):
            return sizes[meaning] if isinstance(meaning, str) else meaning
    return _UNKNOWN


def extent(expression: str, sizes: dict) -> int | None:
    """The worth of `H*K` or `N+1`, None for what is no such expression."""
    try:
        return _worth(ast.parse(expression.strip(), mode="eval").body, sizes)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _worth(node, sizes: dict) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.Name):
        return size(node.id, sizes)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_worth(node.left, sizes), _worth(node.right, sizes))
    raise ValueError("no extent")


def shape(dimensions, sizes: dict) -> tuple[int, ...] | None:
    """The extents of symbolic dimensions, None when one of them is no expression."""
    found = [
        dimension if isinstance(dimension, int) else extent(dimension, sizes)
        for dimension in dimensions
    ]
    return None if None in found else tuple(found)
