"""The types of a kernel's expressions, as a release's own front end gives them.

An expression without an entry has an unknown type: the front end did not reach it, or its type has
no form here.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec

from flacheck.model.launch import DTYPES, find_dtype, language_name

# The language's name of each dtype.
NAMES: dict[str, str] = {dtype: language_name(dtype) for dtype in DTYPES}
# A kind of node, its first line below the `def`, its first column, its last line and column.
_Position = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Tensor:
    """A block of a dtype (`fp16`, or `*fp16` of pointers) and a shape; a scalar's shape is ()."""

    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def pointer(self) -> bool:
        return self.dtype.startswith("*")

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def pointee(self) -> Tensor:
        """The block at these addresses."""
        return Tensor(self.dtype.removeprefix("*"), self.shape)


@dataclass(frozen=True)
class BlockPointer:
    """The result of `tl.make_block_ptr`: the dtype and the shape of the block."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def pointee(self) -> Tensor:
        """The block."""
        return Tensor(self.dtype, self.shape)


@dataclass(frozen=True)
class DTypeValue:
    """A dtype as a value: `tl.float16`, `x.dtype`."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A constant of Python, by its text."""

    text: str


Type = Tensor | BlockPointer | DTypeValue | Constant
Types = Mapping[ast.AST, Type]


class TypeFact(msgspec.Struct, frozen=True):
    """A type in a worker's reply: what it is, its dtype or text, and the shape of a block."""

    kind: str
    name: str
    shape: tuple[int, ...] = ()


def read_types(function: ast.FunctionDef, reply: Any) -> Types:
    """Return the types of a kernel's nodes from a worker's reply; empty for a malformed one."""
    try:
        entries = msgspec.convert(reply, list[tuple[_Position, TypeFact | None]], strict=False)
    except msgspec.ValidationError:
        return {}
    facts = dict(entries)
    types: dict[ast.AST, Type] = {}
    for node in ast.walk(ast.Module(function.body, [])):
        if isinstance(node, ast.expr):
            fact = facts.get(_position(node, function.lineno - 1))
            if fact is not None:
                kind = _type(fact)
                if kind is not None:
                    types[node] = kind
    return types


def _position(node: ast.expr, lines_before: int) -> _Position:
    first, last = node.lineno - lines_before, (node.end_lineno or node.lineno) - lines_before
    return type(node).__name__, first, node.col_offset, last, node.end_col_offset or 0


def _type(fact: TypeFact) -> Type | None:
    if fact.kind == "constant":
        return Constant(fact.name)
    dtype = find_dtype(fact.name.removeprefix("*"))
    if dtype is None:
        return None
    name = f"*{dtype}" if fact.name.startswith("*") else dtype
    if fact.kind == "dtype":
        return DTypeValue(name)
    if fact.kind == "block pointer":
        return BlockPointer(name, fact.shape)
    return Tensor(name, fact.shape)


def is_float(dtype: str) -> bool:
    return dtype.startswith(("fp", "bf"))
