"""What the language's functions give: the type of a call from the types of its arguments."""

from __future__ import annotations

from collections.abc import Callable

from flacheck.repro.kernel.types import (
    BlockPointer,
    DType,
    IllTyped,
    Known,
    Tensor,
    Tuple,
    Type,
    broadcast,
    is_float,
    of_constant,
    promoted,
    united,
)

_UNARY = (
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "sigmoid",
    "abs",
    "floor",
    "ceil",
    "erf",
    "math.exp",
    "math.log",
    "math.abs",
    "math.sqrt",
    "cumsum",
    "cumprod",
    "sort",
    "flip",
    "softmax",
    "max_contiguous",
    "multiple_of",
    "max_constancy",
    "fdiv",
    "div_rn",
    "fma",
    "clamp",
)
SMALLEST_DOT = 16
_REDUCTIONS = ("sum", "max", "min", "xor_sum")
Arguments = list["Type | None"]
Keywords = dict[str, "Type | None"]
Rule = Callable[[Arguments, Keywords], "Type | None"]


def given(name: str, arguments: Arguments, keywords: Keywords) -> Type | None:
    """The type of a call of `tl.dot`, `min`, `.to` (a method's object is its first argument)."""
    if name in ("min", "max"):
        return _widest(arguments)
    name = name.removeprefix(".").removeprefix("tl.")
    if name in _UNARY:
        return _widest(arguments)
    if name in _REDUCTIONS:
        return _reduced(arguments, keywords)
    rule = CALLS.get(name)
    return rule(arguments, keywords) if rule else None


def arithmetic(left: Type | None, right: Type | None, division: bool = False) -> Type | None:
    """The type of `left + right`: pointers stay pointers, literals take the other's dtype."""
    if isinstance(left, Known) and isinstance(right, Known):
        return None
    if isinstance(left, Known):
        left, right = right, left
    if not isinstance(left, Tensor):
        return None
    if isinstance(right, Known):
        dtype = of_constant(right.value, left.dtype)
        return (
            Tensor("fp32" if division and dtype and not is_float(dtype) else dtype, left.shape)
            if dtype
            else None
        )
    if not isinstance(right, Tensor):
        return None
    shape = broadcast(left.shape, right.shape)
    if left.pointer or right.pointer:
        return Tensor(left.dtype if left.pointer else right.dtype, shape)
    dtype = promoted(left.dtype, right.dtype)
    return Tensor("fp32" if division and not is_float(dtype) else dtype, shape)


def _widest(values: Arguments, _: Keywords | None = None) -> Type | None:
    found = values[0] if values else None
    for other in values[1:]:
        if isinstance(other, Tensor):
            found = arithmetic(found, other)
    return found if isinstance(found, Tensor) else None


def _argument(values: Arguments, keywords: Keywords, at: int, name: str) -> Type | None:
    return values[at] if at < len(values) else keywords.get(name)


def _numbers(value: Type | None) -> tuple[int, ...] | None:
    """A shape: a tuple of known numbers."""
    if isinstance(value, Known) and isinstance(value.value, int):
        return (value.value,)
    items = value.items if isinstance(value, Tuple) else ()
    found = tuple(i.value for i in items if isinstance(i, Known) and isinstance(i.value, int))
    return found if found and len(found) == len(items) else None


def _block(values: Arguments, keywords: Keywords) -> Type | None:
    """`tl.zeros(shape, dtype)`."""
    shape, dtype = (
        _numbers(_argument(values, keywords, 0, "shape")),
        _argument(values, keywords, 1, "dtype"),
    )
    return Tensor(dtype.name, shape) if shape and isinstance(dtype, DType) else None


def _full(values: Arguments, keywords: Keywords) -> Type | None:
    shape, dtype = (
        _numbers(_argument(values, keywords, 0, "shape")),
        _argument(values, keywords, 2, "dtype"),
    )
    return Tensor(dtype.name, shape) if shape and isinstance(dtype, DType) else None


def _like(values: Arguments, _: Keywords) -> Type | None:
    return values[0] if isinstance(values[0], Tensor) else None


def _arange(values: Arguments, _: Keywords) -> Type | None:
    bounds = [v.value for v in values if isinstance(v, Known) and isinstance(v.value, int)]
    if len(bounds) != 2:
        return None
    return Tensor("i32", (bounds[1] - bounds[0] if bounds[0] else bounds[1],))


def _load(values: Arguments, _: Keywords) -> Type | None:
    source = values[0] if values else None
    if isinstance(source, BlockPointer):
        return Tensor(source.dtype, source.shape)
    return (
        Tensor(source.dtype[1:], source.shape)
        if isinstance(source, Tensor) and source.pointer
        else None
    )


def _block_pointer(values: Arguments, keywords: Keywords) -> Type | None:
    base, shape = (
        _argument(values, keywords, 0, "base"),
        _numbers(_argument(values, keywords, 4, "block_shape")),
    )
    return (
        BlockPointer(base.dtype[1:], shape)
        if isinstance(base, Tensor) and base.pointer and shape
        else None
    )


def _dot(values: Arguments, keywords: Keywords) -> Type | None:
    left, right = (values + [None, None])[:2]
    if (
        not isinstance(left, Tensor)
        or not isinstance(right, Tensor)
        or len(left.shape) < 2
        or len(right.shape) < 2
    ):
        return None
    out = keywords.get("out_dtype")
    _inner(left.shape[-1], right.shape[-2])
    if min(left.shape[-2:] + right.shape[-1:]) < SMALLEST_DOT:
        raise IllTyped(f"a dot of {left.shape} and {right.shape}")
    default = "fp32" if is_float(left.dtype) else "i32"
    dtype = out.name if isinstance(out, DType) else "fp64" if left.dtype == "fp64" else default
    return Tensor(dtype, (*left.shape[:-1], right.shape[-1]))


def _inner(left: int, right: int) -> None:
    """The axes that a dot sums over must be equal, 1 too."""
    if left != right:
        raise IllTyped(f"a dot over {left} and {right}")
    united(left, right)


def _store(values: Arguments, keywords: Keywords) -> None:
    """A value is stretched to its addresses, never the other way round."""
    target, value = values[0] if values else None, _argument(values, keywords, 1, "value")
    if not isinstance(target, (Tensor, BlockPointer)) or not isinstance(value, Tensor):
        return
    if broadcast(target.shape, value.shape) != target.shape:
        raise IllTyped(f"{value.shape} stored to {target.shape}")


def _cast(values: Arguments, keywords: Keywords) -> Type | None:
    value, dtype = values[0], _argument(values, keywords, 1, "dtype")
    if isinstance(value, Known):
        value = Tensor("i32")
    return (
        Tensor(dtype.name, value.shape)
        if isinstance(value, Tensor) and isinstance(dtype, DType)
        else None
    )


def _where(values: Arguments, _: Keywords) -> Type | None:
    both = arithmetic(values[1], values[2]) if len(values) == 3 else None
    if not isinstance(both, Tensor) or not isinstance(values[0], Tensor):
        return None
    return Tensor(both.dtype, broadcast(values[0].shape, both.shape))


def _transposed(values: Arguments, _: Keywords) -> Type | None:
    value = values[0]
    if not isinstance(value, Tensor):
        return None
    order = (
        _numbers(values[1])
        if len(values) == 2
        else tuple(v.value for v in values[1:] if isinstance(v, Known) and isinstance(v.value, int))
    )
    if not order:
        return Tensor(value.dtype, value.shape[::-1]) if len(value.shape) == 2 else None
    return (
        Tensor(value.dtype, tuple(value.shape[i] for i in order))
        if len(order) == len(value.shape)
        else None
    )


def _shaped(values: Arguments, keywords: Keywords) -> Type | None:
    """`tl.reshape`, `tl.view`, `tl.broadcast_to`."""
    value = values[0]
    shape = _numbers(_argument(values, keywords, 1, "shape"))
    if shape and len(values) > 2:
        numbers = [v.value for v in values[1:] if isinstance(v, Known) and isinstance(v.value, int)]
        shape = tuple(numbers) if len(numbers) == len(values) - 1 else None
    return Tensor(value.dtype, shape) if isinstance(value, Tensor) and shape else None


def _expanded(values: Arguments, keywords: Keywords) -> Type | None:
    value, axis = values[0], _argument(values, keywords, 1, "axis")
    if (
        not isinstance(value, Tensor)
        or not isinstance(axis, Known)
        or not isinstance(axis.value, int)
    ):
        return None
    at = axis.value % (len(value.shape) + 1)
    return Tensor(value.dtype, (*value.shape[:at], 1, *value.shape[at:]))


def _reduced(values: Arguments, keywords: Keywords) -> Type | None:
    value, axis = values[0], _argument(values, keywords, 1, "axis")
    if not isinstance(value, Tensor):
        return None
    dtype = (
        "i32"
        if value.dtype in ("i1", "i8", "i16")
        else "fp32"
        if value.dtype == "bf16"
        else value.dtype
    )
    if axis is None or (isinstance(axis, Known) and axis.value is None):
        return Tensor(dtype)
    if not isinstance(axis, Known) or not isinstance(axis.value, int) or not value.shape:
        return None
    at = axis.value % len(value.shape)
    keep = keywords.get("keep_dims")
    middle = (1,) if isinstance(keep, Known) and keep.value else ()
    return Tensor(dtype, (*value.shape[:at], *middle, *value.shape[at + 1 :]))


def _index(values: Arguments, keywords: Keywords) -> Type | None:
    found = _reduced(values, keywords)
    return Tensor("i32", found.shape) if isinstance(found, Tensor) else None


CALLS: dict[str, Rule] = {
    "zeros": _block,
    "full": _full,
    "zeros_like": _like,
    "arange": _arange,
    "load": _load,
    "store": _store,
    "make_block_ptr": _block_pointer,
    "advance": lambda v, _: v[0],
    "dot": _dot,
    "to": _cast,
    "cast": _cast,
    "where": _where,
    "trans": _transposed,
    "permute": _transposed,
    "reshape": _shaped,
    "view": _shaped,
    "broadcast_to": _shaped,
    "expand_dims": _expanded,
    "argmax": _index,
    "argmin": _index,
    "maximum": _widest,
    "minimum": _widest,
    "program_id": lambda v, k: Tensor("i32"),
    "num_programs": lambda v, k: Tensor("i32"),
    "cdiv": lambda v, k: arithmetic(v[0], v[1]) if len(v) == 2 else None,
}
