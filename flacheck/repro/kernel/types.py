"""What an expression of a kernel is: a block or scalar of some dtype, a block pointer, or a known
constant.

`None` stands for what is not known; nothing is ever guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

FLOATS = ("fp8e5", "fp8e4nv", "fp8e4b8", "fp8e5b16", "bf16", "fp16", "fp32", "fp64")
INTEGERS = ("i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
_RANK = {name: rank for rank, name in enumerate((*INTEGERS, *FLOATS))}
LANGUAGE = {
    "float8e5": "fp8e5",
    "float8e4nv": "fp8e4nv",
    "float8e4b8": "fp8e4b8",
    "float8e5b16": "fp8e5b16",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
    "int1": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}
NAMES = {short: long for long, short in LANGUAGE.items()}


@dataclass(frozen=True)
class Tensor:
    """A block of a dtype (`fp16`, or `*fp16` of pointers) and a shape; a scalar has the shape ()."""

    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def pointer(self) -> bool:
        return self.dtype.startswith("*")

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class BlockPointer:
    """What `tl.make_block_ptr` gives: the dtype and the shape of the block it leads to."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class DType:
    """A dtype as a value: `tl.float16`, `x.dtype`."""

    name: str


@dataclass(frozen=True)
class Known:
    """A constant of Python: a number, a truth value, None, a string or a tuple of them."""

    value: object


@dataclass(frozen=True)
class Tuple:
    """Several values."""

    items: tuple[Type | None, ...]


Type = Tensor | BlockPointer | DType | Known | Tuple


class IllTyped(Exception):
    """No release can compile it: shapes that do not fit, a dot too small."""


class Extent(int):
    """A number that stands in the text, and may be the extent of an axis. Extents that must be
    equal, because blocks of them meet, are made one group: they can only change together.
    """

    def __new__(cls, value: int, node: object) -> Extent:
        self = int.__new__(cls, value)
        self.node = node
        self._parent = None
        return self

    node: object
    _parent: Extent | None

    def group(self) -> Extent:
        """The one that stands for all of its group."""
        return self if self._parent is None else self._parent.group()

    def unite(self, other: Extent) -> None:
        ours, theirs = self.group(), other.group()
        if ours is not theirs:
            theirs._parent = ours


def united(left: int, right: int) -> int:
    """One extent for two that must be equal; 1 stretches to the other."""
    if left == right:
        if isinstance(left, Extent) and isinstance(right, Extent):
            left.unite(right)
        return left if isinstance(left, Extent) else right
    if 1 not in (left, right):
        raise IllTyped(f"extents {left} and {right} meet")
    return right if left == 1 else left


def broadcast(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    """The common shape of two blocks; a shorter one is extended in front. Raises IllTyped when
    there is none.
    """
    length = max(len(left), len(right))
    pairs = zip(
        (1,) * (length - len(left)) + tuple(left), (1,) * (length - len(right)) + tuple(right)
    )
    return tuple(united(a, b) for a, b in pairs)


def promoted(left: str, right: str) -> str:
    """The dtype of arithmetic on two dtypes: floats win, then the wider; two different halves meet
    in fp32.
    """
    if {left, right} == {"fp16", "bf16"}:
        return "fp32"
    return max(left, right, key=lambda name: _RANK.get(name, 0))


def of_constant(value: object, other: str | None = None) -> str | None:
    """The dtype that a literal takes beside `other`: it does not widen a dtype of its own kind."""
    if isinstance(value, bool):
        return "i1" if other is None else other
    if isinstance(value, int):
        return other or ("i32" if -(1 << 31) <= value < 1 << 31 else "i64")
    if isinstance(value, float):
        return other if other in FLOATS else "fp32"
    return None


def is_float(dtype: str) -> bool:
    return dtype in FLOATS
