"""What the language's functions give: the type of a call from the types of its arguments.

A rule has the parameters of the function that it stands for, as far as they decide the type.
"""

from __future__ import annotations

from collections.abc import Callable

from flacheck.repro.kernel.block_types import (
    BlockPointer,
    Constant,
    DTypeValue,
    IllTyped,
    Several,
    Tensor,
    Type,
    arithmetic,
    broadcast,
    is_float,
    united,
)

# Triton up to 3.3 refuses a dot with a smaller axis. Newer releases pad it, but a candidate has to
# reach the compiler's later stages on all releases that are asked.
SMALLEST_DOT = 16
# Sums of narrow numbers are taken in a wider type.
_SUMMED_IN = {"i1": "i32", "i8": "i32", "i16": "i32", "bf16": "fp32"}


def result_type(name: str, positional: list[Type], keywords: dict[str, Type]) -> Type:
    """The type of a call of `tl.dot`, `min`, `.to` (a method's object is its first argument)."""
    # Python's own functions of scalars; `tl.min` and `.min` are reductions.
    if name in ("min", "max"):
        return _elementwise(*positional)
    rule = _RULES.get(name.removeprefix(".").removeprefix("tl."))
    if rule is None:
        return None
    return rule(*positional, **keywords)


def _elementwise(first: Type = None, /, *others: Type, **_: Type) -> Type:
    """The widest of the arguments."""
    result = first
    for other in others:
        if isinstance(other, Tensor):
            result = arithmetic(result, other)
    if not isinstance(result, Tensor):
        return None
    return result


def _number(value: Type) -> int | None:
    if isinstance(value, Constant) and isinstance(value.value, int):
        return value.value
    return None


def _numbers(value: Type) -> tuple[int, ...] | None:
    """A shape: a tuple of known numbers, or one of them."""
    items: tuple[Type, ...] = (value,)
    if isinstance(value, Several):
        items = value.items
    numbers = [number for number in map(_number, items) if number is not None]
    if not numbers or len(numbers) < len(items):
        return None
    return tuple(numbers)


def _zeros(shape: Type = None, dtype: Type = None, *_: Type, **__: Type) -> Type:
    extents = _numbers(shape)
    if extents is None or not isinstance(dtype, DTypeValue):
        return None
    return Tensor(dtype.name, extents)


def _full(shape: Type = None, value: Type = None, dtype: Type = None, *_: Type, **__: Type) -> Type:
    return _zeros(shape, dtype)


def _arange(*bounds: Type, **_: Type) -> Type:
    numbers = _numbers(Several(bounds))
    if numbers is None or len(numbers) != 2:
        return None
    start, end = numbers
    # From 0, the end is the axis's extent itself and may change with others.
    if start:
        end -= start
    return Tensor("i32", (end,))


def _load(address: Type = None, /, *_: Type, **__: Type) -> Type:
    if isinstance(address, BlockPointer):
        return Tensor(address.dtype, address.shape)
    if isinstance(address, Tensor) and address.pointer:
        return Tensor(address.dtype[1:], address.shape)
    return None


def _store(address: Type = None, /, value: Type = None, *_: Type, **__: Type) -> None:
    """A value is stretched to its addresses, never the other way round."""
    if not isinstance(address, (Tensor, BlockPointer)) or not isinstance(value, Tensor):
        return
    if broadcast(address.shape, value.shape) != address.shape:
        raise IllTyped(f"{value.shape} stored to {address.shape}")


def _make_block_ptr(
    base: Type = None,
    shape: Type = None,
    strides: Type = None,
    offsets: Type = None,
    block_shape: Type = None,
    *_: Type,
    **__: Type,
) -> Type:
    extents = _numbers(block_shape)
    if extents is None or not isinstance(base, Tensor) or not base.pointer:
        return None
    return BlockPointer(base.dtype[1:], extents)


def _advance(pointer: Type = None, /, *_: Type, **__: Type) -> Type:
    return pointer


def _dot(
    left: Type = None, right: Type = None, /, *_: Type, out_dtype: Type = None, **__: Type
) -> Type:
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        return None
    if len(left.shape) < 2 or len(right.shape) < 2:
        return None
    # The axes that a dot sums over must be equal, 1 too.
    if left.shape[-1] != right.shape[-2]:
        raise IllTyped(f"a dot over {left.shape[-1]} and {right.shape[-2]}")
    united(left.shape[-1], right.shape[-2])
    if min(left.shape[-2:] + right.shape[-1:]) < SMALLEST_DOT:
        raise IllTyped(f"a dot of {left.shape} and {right.shape}")
    shape = (*left.shape[:-1], right.shape[-1])
    if isinstance(out_dtype, DTypeValue):
        return Tensor(out_dtype.name, shape)
    if left.dtype == "fp64":
        return Tensor("fp64", shape)
    if is_float(left.dtype):
        return Tensor("fp32", shape)
    return Tensor("i32", shape)


def _cast(value: Type = None, /, dtype: Type = None, *_: Type, **__: Type) -> Type:
    if not isinstance(dtype, DTypeValue):
        return None
    if isinstance(value, Constant):
        return Tensor(dtype.name)
    if isinstance(value, Tensor):
        return Tensor(dtype.name, value.shape)
    return None


def _where(
    condition: Type = None, left: Type = None, right: Type = None, /, *_: Type, **__: Type
) -> Type:
    both = arithmetic(left, right)
    if both is None or not isinstance(condition, Tensor):
        return None
    return Tensor(both.dtype, broadcast(condition.shape, both.shape))


def _cdiv(left: Type = None, right: Type = None, /, *_: Type, **__: Type) -> Type:
    return arithmetic(left, right)


def _trans(value: Type = None, /, *order: Type, **_: Type) -> Type:
    if not isinstance(value, Tensor):
        return None
    axes = _listed(order)
    if axes is None and len(value.shape) == 2:
        axes = (1, 0)
    if axes is None or len(axes) != len(value.shape):
        return None
    return Tensor(value.dtype, tuple(value.shape[axis] for axis in axes))


def _reshape(value: Type = None, /, *sizes: Type, shape: Type = None, **_: Type) -> Type:
    extents = _listed(sizes or (shape,))
    if extents is None or not isinstance(value, Tensor):
        return None
    return Tensor(value.dtype, extents)


def _listed(arguments: tuple[Type, ...]) -> tuple[int, ...] | None:
    """Numbers given as one tuple, or one by one."""
    if len(arguments) == 1:
        return _numbers(arguments[0])
    return _numbers(Several(arguments))


def _expand_dims(value: Type = None, /, axis: Type = None, *_: Type, **__: Type) -> Type:
    at = _number(axis)
    if at is None or not isinstance(value, Tensor):
        return None
    at %= len(value.shape) + 1
    return Tensor(value.dtype, (*value.shape[:at], 1, *value.shape[at:]))


def _reduction(
    value: Type = None, /, axis: Type = None, *_: Type, keep_dims: Type = None, **__: Type
) -> Type:
    if not isinstance(value, Tensor):
        return None
    dtype = _SUMMED_IN.get(value.dtype, value.dtype)
    if axis in (None, Constant(None)):
        return Tensor(dtype)
    at = _number(axis)
    if at is None or not value.shape:
        return None
    at %= len(value.shape)
    middle: tuple[int, ...] = ()
    if isinstance(keep_dims, Constant) and keep_dims.value:
        middle = (1,)
    return Tensor(dtype, (*value.shape[:at], *middle, *value.shape[at + 1 :]))


def _index(*positional: Type, **keywords: Type) -> Type:
    reduced = _reduction(*positional, **keywords)
    if not isinstance(reduced, Tensor):
        return None
    return Tensor("i32", reduced.shape)


def _program(*_: Type, **__: Type) -> Type:
    return Tensor("i32")


_ELEMENTWISE = """
abs ceil clamp cos cumprod cumsum div_rn erf exp exp2 fdiv flip floor fma log log2 maximum minimum
max_constancy max_contiguous multiple_of rsqrt sigmoid sin softmax sort sqrt zeros_like
math.abs math.exp math.log math.sqrt
""".split()

_RULES: dict[str, Callable[..., Type]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(("sum", "max", "min", "xor_sum"), _reduction),
    **dict.fromkeys(("argmax", "argmin"), _index),
    **dict.fromkeys(("to", "cast"), _cast),
    **dict.fromkeys(("trans", "permute"), _trans),
    **dict.fromkeys(("reshape", "view", "broadcast_to"), _reshape),
    **dict.fromkeys(("program_id", "num_programs"), _program),
    "advance": _advance,
    "arange": _arange,
    "cdiv": _cdiv,
    "dot": _dot,
    "expand_dims": _expand_dims,
    "full": _full,
    "load": _load,
    "make_block_ptr": _make_block_ptr,
    "store": _store,
    "where": _where,
    "zeros": _zeros,
}
