"""The types of calls of the language's functions, from the types of the arguments.

A rule has those parameters of its function that determine the type; a missing argument is None. The
first argument is positional, and a method's object is its first argument.
"""

from collections.abc import Callable
from functools import cache
from inspect import getfullargspec

from flacheck.capabilities.repro.kernel.block_types import (
    INTEGERS,
    BlockPointer,
    Constant,
    DTypeValue,
    IllTyped,
    Several,
    Tensor,
    Type,
    Unknown,
    arithmetic,
    broadcast,
    known_block,
    known_dtype,
    known_number,
    known_shape,
    pointee,
    unify,
)

# Triton up to 3.3 refuses a dot with a smaller axis. Newer releases pad it, but a candidate has to
# reach the compiler's later stages on all releases.
SMALLEST_DOT = 16
# Sums compute narrow numbers in a wider type.
_ADDED_IN = {"i1": "i32", "i8": "i32", "i16": "i32", "bf16": "fp32"}
# The results of max and min have at least 32 bits.
_WIDE = ("i32", "u32", "i64", "u64", "fp32", "fp64")
# The exceptions from a dot's sum in fp32.
_SUMMED_IN = {"fp64": "fp64", **dict.fromkeys(INTEGERS, "i32")}


def result_type(name: str, positional: list[Type], keywords: dict[str, Type]) -> Type:
    """Return the type of a call of `tl.dot`, `min`, `.to`; raise Unknown or IllTyped."""
    short = name.removeprefix(".").removeprefix("tl.")
    # `min` itself is Python's, of scalars; `tl.min` and `.min` are reductions.
    if name in ("min", "max") or short in _ELEMENTWISE:
        return _widest(positional)
    if short not in _RULES:
        raise Unknown
    if short in _WITH_SIZES and len(positional) > 2:
        # `tl.permute(x, 1, 0)` is `tl.permute(x, (1, 0))`.
        positional = [positional[0], Several(tuple(positional[1:]))]
    rule = _RULES[short]
    by_position, by_name = _parameters(rule)
    arguments: dict[str, Type] = dict.fromkeys([*by_position, *by_name])
    for parameter, kind in keywords.items():
        if parameter in arguments:
            arguments[parameter] = kind
    arguments |= zip(by_position, positional)
    return rule(**arguments)


@cache
def _parameters(rule: Callable[..., Type]) -> tuple[list[str], list[str]]:
    """Return the parameters of a rule that may be positional, and its keyword-only ones."""
    specification = getfullargspec(rule)
    return specification.args, specification.kwonlyargs


def _widest(values: list[Type]) -> Type:
    """Return the type of an elementwise result."""
    if not values:
        raise Unknown
    result, *others = values
    for other in others:
        if isinstance(other, Tensor):
            result = arithmetic(result, other)
    return known_block(result)


def _zeros(shape: Type, dtype: Type) -> Type:
    if shape == Several(()):
        return Tensor(known_dtype(dtype))
    return Tensor(known_dtype(dtype), known_shape(shape))


def _arange(start: Type, end: Type) -> Type:
    extent = known_number(end)
    # With a start of 0, the end itself is the extent, which may change with others.
    if known_number(start):
        extent -= known_number(start)
    return Tensor("i32", (extent,))


def _store(address: Type, value: Type) -> None:
    """Check a store: a value may be stretched to its addresses, but not the reverse."""
    if not isinstance(address, (Tensor, BlockPointer)):
        raise Unknown
    if broadcast(address.shape, known_block(value).shape) != address.shape:
        raise IllTyped(f"{value} stored to {address.shape}")


def _make_block_ptr(
    base: Type, shape: Type, strides: Type, offsets: Type, block_shape: Type
) -> Type:
    return BlockPointer(pointee(known_block(base)).dtype, known_shape(block_shape))


def _make_tensor_descriptor(base: Type, shape: Type, strides: Type, block_shape: Type) -> Type:
    return BlockPointer(pointee(known_block(base)).dtype, known_shape(block_shape))


def _dot(left: Type, right: Type, *, out_dtype: Type) -> Type:
    one, other = known_block(left).shape, known_block(right).shape
    if len(one) < 2 or len(other) < 2:
        raise Unknown
    # The axes that a dot sums over must be equal; an extent of 1 does not stretch.
    if one[-1] != other[-2]:
        raise IllTyped(f"a dot over {one[-1]} and {other[-2]}")
    unify(one[-1], other[-2])
    if min(*one[-2:], other[-1]) < SMALLEST_DOT:
        raise IllTyped(f"a dot of {one} and {other}")
    dtype = _SUMMED_IN.get(known_block(left).dtype, "fp32")
    if isinstance(out_dtype, DTypeValue):
        dtype = out_dtype.name
    return Tensor(dtype, (*one[:-1], other[-1]))


def _dot_scaled(
    lhs: Type,
    lhs_scale: Type,
    lhs_format: Type,
    rhs: Type,
    rhs_scale: Type,
    rhs_format: Type,
    acc: Type,
    *,
    out_dtype: Type,
) -> Type:
    """Return the type of a scaled dot; formats may pack two numbers in a byte along the sum."""
    one, other = known_block(lhs).shape, known_block(rhs).shape
    if len(one) < 2 or len(other) < 2:
        raise Unknown
    if min(one[-2], other[-1]) < SMALLEST_DOT:
        raise IllTyped(f"a scaled dot of {one} and {other}")
    dtype = "fp32"
    if isinstance(out_dtype, DTypeValue):
        dtype = out_dtype.name
    return Tensor(dtype, (*one[:-1], other[-1]))


def _cast(value: Type, dtype: Type) -> Type:
    if isinstance(value, Constant):
        return Tensor(known_dtype(dtype))
    return Tensor(known_dtype(dtype), known_block(value).shape)


def _where(condition: Type, left: Type, right: Type) -> Type:
    if isinstance(left, Constant):
        # A literal takes the other's dtype; the first of two literals becomes a block.
        left, right = right, left
    if isinstance(left, Constant):
        left = _of_literal(left)
    both = arithmetic(left, right)
    return Tensor(both.dtype, broadcast(known_block(condition).shape, both.shape))


def _of_literal(literal: Constant) -> Tensor:
    """Return the type of a Python number as an operand."""
    if isinstance(literal.value, float):
        return Tensor("fp32")
    known_number(literal)
    return Tensor("i32")


def _float(value: Type) -> Type:
    """Return the constant `float("inf")`; raise Unknown for a number of the launch."""
    if isinstance(value, Constant) and isinstance(value.value, (str, int, float)):
        try:
            return Constant(float(value.value))
        except ValueError:
            raise Unknown from None
    raise Unknown


def _permute(block: Type, order: Type) -> Type:
    dtype, shape = known_block(block).dtype, known_block(block).shape
    axes: tuple[int, ...] = (1, 0)
    if order is not None:
        axes = known_shape(order)
    if len(axes) != len(shape):
        raise Unknown
    return Tensor(dtype, tuple(shape[axis] for axis in axes))


def _expand_dims(block: Type, axis: Type) -> Type:
    shape = list(known_block(block).shape)
    shape.insert(known_number(axis) % (len(shape) + 1), 1)
    return Tensor(known_block(block).dtype, tuple(shape))


def _reduced_shape(block: Type, axis: Type, keep_dims: Type) -> tuple[int, ...]:
    """Return the shape of a block after a reduction."""
    shape = list(known_block(block).shape)
    # Without an axis, the reduction is over all axes.
    if axis in (None, Constant(None)):
        return ()
    if not shape:
        raise Unknown
    at = known_number(axis) % len(shape)
    if _holds(keep_dims):
        shape[at] = 1
    else:
        del shape[at]
    return tuple(shape)


def _holds(flag: Type) -> bool:
    return isinstance(flag, Constant) and bool(flag.value)


def _sum(block: Type, axis: Type, keep_dims: Type) -> Type:
    dtype = known_block(block).dtype
    return Tensor(_ADDED_IN.get(dtype, dtype), _reduced_shape(block, axis, keep_dims))


def _extreme(
    block: Type,
    axis: Type,
    return_indices: Type,
    return_indices_tie_break_left: Type,
    keep_dims: Type,
) -> Type:
    dtype = known_block(block).dtype
    # With indices beside the numbers the result is two blocks.
    if _holds(return_indices):
        raise Unknown
    if dtype not in _WIDE:
        dtype = "i32" if dtype in INTEGERS else "fp32"
    return Tensor(dtype, _reduced_shape(block, axis, keep_dims))


def _index(block: Type, axis: Type, tie_break_left: Type, keep_dims: Type) -> Type:
    return Tensor("i32", _reduced_shape(block, axis, keep_dims))


def _inline_asm(asm: Type, constraints: Type, args: Type, dtype: Type) -> Type:
    """Return a block of the given dtype with the common shape of the arguments."""
    if not isinstance(args, Several):
        raise Unknown
    widest = _widest(list(args.items))
    return Tensor(known_dtype(dtype), known_block(widest).shape)


_ELEMENTWISE = """
abs ceil clamp cos cumprod cumsum div_rn erf exp exp2 fdiv flip floor fma log log2 maximum minimum
max_constancy max_contiguous multiple_of rsqrt sigmoid sin softmax sort sqrt zeros_like
math.abs math.exp math.log math.sqrt
""".split()
_WITH_SIZES = ("trans", "permute", "reshape", "view", "broadcast_to")
_RULES: dict[str, Callable[..., Type]] = {
    **dict.fromkeys(("sum", "xor_sum"), _sum),
    **dict.fromkeys(("max", "min"), _extreme),
    **dict.fromkeys(("argmax", "argmin"), _index),
    **dict.fromkeys(("to", "cast"), _cast),
    **dict.fromkeys(("trans", "permute"), _permute),
    **dict.fromkeys(
        ("reshape", "view", "broadcast_to"),
        lambda block, shape: Tensor(known_block(block).dtype, known_shape(shape)),
    ),
    **dict.fromkeys(("program_id", "num_programs"), lambda axis: Tensor("i32")),
    "advance": lambda pointer: pointer,
    "arange": _arange,
    "cdiv": lambda left, right: arithmetic(left, right),
    "constexpr": lambda value: value,
    "dot": _dot,
    "dot_scaled": _dot_scaled,
    "expand_dims": _expand_dims,
    "float": _float,
    "inline_asm_elementwise": _inline_asm,
    "full": lambda shape, value, dtype: _zeros(shape, dtype),
    "load": pointee,
    "make_block_ptr": _make_block_ptr,
    "make_tensor_descriptor": _make_tensor_descriptor,
    "store": _store,
    "where": _where,
    "zeros": _zeros,
}
