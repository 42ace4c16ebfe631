"""The types of a kernel's expressions: blocks and scalars of a dtype, block pointers, constants.

`None` is an unknown type. A function that requires a known type raises Unknown; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod

# The language's name of each dtype, in the order of promotion, the weakest first.
_NAMES = """
i1:int1 i8:int8 u8:uint8 i16:int16 u16:uint16 i32:int32 u32:uint32 i64:int64 u64:uint64
fp8e5:float8e5 fp8e4nv:float8e4nv fp8e4b8:float8e4b8 fp8e5b16:float8e5b16
bf16:bfloat16 fp16:float16 fp32:float32 fp64:float64
"""
NAMES: dict[str, str] = dict(pair.split(":") for pair in _NAMES.split())
LANGUAGE = {long: short for short, long in NAMES.items()}
_RANK = {name: rank for rank, name in enumerate(NAMES)}
INTEGERS = [name for name in NAMES if name.startswith(("i", "u"))]


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


@dataclass(frozen=True)
class BlockPointer:
    """The result of `tl.make_block_ptr`: the dtype and the shape of the block."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class DTypeValue:
    """A dtype as a value: `tl.float16`, `x.dtype`."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A constant of Python: a number, a truth value, None, a string or a tuple of them."""

    value: object


@dataclass(frozen=True)
class Several:
    """A tuple or list of values."""

    items: tuple[Type, ...]


Type = Tensor | BlockPointer | DTypeValue | Constant | Several | None


class Unknown(Exception):
    """A type that only a compiler can infer."""


class IllTyped(Exception):
    """An expression that no release compiles: shapes that do not fit, a dot too small."""


class Extent(int):
    """A number in the text that may be the extent of an axis.

    Extents that must be equal, because an operation combines their blocks, form a group: they can
    only change together.
    """

    parent: Extent | None = None

    def group(self) -> Extent:
        """Return the representative of its group."""
        if self.parent is None:
            return self
        return self.parent.group()


def unify(left: int, right: int) -> int:
    """Return the common extent of two, of which one may be 1; raise IllTyped if they differ."""
    if left == right:
        if not isinstance(left, Extent):
            return right
        if isinstance(right, Extent) and left.group() is not right.group():
            right.group().parent = left.group()
        return left
    if left == 1:
        return right
    if right == 1:
        return left
    raise IllTyped(f"extents {left} and {right} meet")


def broadcast(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    """Return the common shape of two blocks; the shorter is extended in front. Raise IllTyped."""
    pairs = zip_longest(reversed(left), reversed(right), fillvalue=1)
    extents = [unify(one, other) for one, other in pairs]
    return tuple(reversed(extents))


def is_float(dtype: str) -> bool:
    return dtype.startswith(("fp", "bf"))


def known_block(value: Type) -> Tensor:
    """Return a value that is a block or scalar; raise Unknown for every other."""
    if not isinstance(value, Tensor):
        raise Unknown
    return value


def known_number(value: Type) -> int:
    """Return the number of a constant; raise Unknown for every other value."""
    if not isinstance(value, Constant) or not isinstance(value.value, int):
        raise Unknown
    return value.value


def known_shape(value: Type) -> tuple[int, ...]:
    """Return the shape in a tuple of numbers or in one number; raise Unknown for other values."""
    if not isinstance(value, Several):
        return (known_number(value),)
    if not value.items:
        raise Unknown
    return tuple(map(known_number, value.items))


def known_dtype(value: Type) -> str:
    """Return the name of a dtype; raise Unknown for every other value."""
    if not isinstance(value, DTypeValue):
        raise Unknown
    return value.name


def pointee(address: Type) -> Tensor:
    """Return the block at an address; raise Unknown for other values."""
    if isinstance(address, BlockPointer):
        return Tensor(address.dtype, address.shape)
    block = known_block(address)
    if not block.pointer:
        raise Unknown
    return Tensor(block.dtype[1:], block.shape)


def arithmetic(left: Type, right: Type, division: bool = False) -> Tensor:
    """Return the type of `left + right`: pointers stay, literals take the other's dtype."""
    if isinstance(left, Constant):
        left, right = right, left
    block = known_block(left)
    if isinstance(right, Constant):
        if not isinstance(right.value, (int, float)):
            raise Unknown
        dtype, shape = block.dtype, block.shape
        # A literal does not widen a dtype of its own kind.
        if isinstance(right.value, float) and not is_float(dtype):
            dtype = "fp32"
    else:
        other = known_block(right)
        dtype, shape = _promote(block, other), broadcast(block.shape, other.shape)
    # Python's division of integers gives a float.
    if division and not is_float(dtype):
        dtype = "fp32"
    return Tensor(dtype, shape)


def _promote(left: Tensor, right: Tensor) -> str:
    """Return the dtype of arithmetic on two blocks: pointers win, then floats, then the wider."""
    if left.pointer:
        return left.dtype
    if right.pointer:
        return right.dtype
    if {left.dtype, right.dtype} == {"fp16", "bf16"}:
        # Neither of the two dtypes holds the other's values.
        return "fp32"
    return max(left.dtype, right.dtype, key=lambda name: _RANK.get(name, 0))
