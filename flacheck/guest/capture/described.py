"""Arguments and configurations of a launch in the contract's form: what they are, never what is in them."""

from __future__ import annotations

import inspect
import math

_NAMES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16",
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip
_LANGUAGE = {"int1": "i1"}
_ALIGNMENT = 16
_UNSET = object()


def argument(value):
    """One argument: `{"dtype", "align"}`, `{"int"}`, `{"float"}`, `{"bool"}`, `{"tuple"}`, `{"constexpr"}` or None.

    One that has no such form is `{"unknown": its type}`; a launch with it cannot be built again.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return {"bool": value}
    if type(value).__name__ == "constexpr":
        return {"constexpr": constant(value.value)}
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return {"dtype": _NAMES.get(str(value.dtype).rpartition(".")[2], str(value.dtype)), "align": _align(value)}
    if isinstance(value, (tuple, list)):
        return {"tuple": [argument(item) for item in value]}
    if hasattr(value, "base") and hasattr(value, "block_shape"):
        return {"descriptor": _descriptor(value)}
    return _number(value)


def _number(value):
    if hasattr(value, "__index__"):
        return {"int": value.__index__()}
    if hasattr(value, "__float__"):
        return {"float": float(value)}
    if isinstance(value, str):
        return {"constexpr": value}
    special = constant(value)
    return {"constexpr": special} if "unknown" not in special else special


def _align(tensor) -> int:
    """The largest power of two up to 16 that divides the address."""
    return math.gcd(tensor.data_ptr(), _ALIGNMENT)


def _descriptor(value) -> dict:
    return {
        **argument(value.base),
        "shape": [int(extent) for extent in value.shape],
        "strides": [int(stride) for stride in value.strides],
        "block": [int(extent) for extent in value.block_shape],
    }


def constant(value):
    """A constexpr: a literal, `{"dtype"}` of the language, `{"tuple"}`, `{"function"}`, or `{"unknown"}`."""
    if value is None or isinstance(value, bool):
        return value
    for plain in (int, float, str):
        if isinstance(value, plain):
            return plain(value) if plain is not str else str.__str__(value)
    kind = type(value)
    if kind.__name__ == "constexpr":
        return constant(value.value)
    if kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        return {"dtype": _LANGUAGE.get(str(value), str(value))}
    if isinstance(value, (tuple, list)):
        return {"tuple": [constant(item) for item in value]}
    if kind.__name__ == "JITFunction":
        return {"function": value.fn.__name__}
    if hasattr(value, "__index__"):
        return value.__index__()
    if hasattr(value, "__float__"):
        return float(value)
    return {"unknown": f"{kind.__module__}.{kind.__qualname__}"}


def configuration(config) -> dict:
    """An autotune configuration: `kwargs`, num_warps, num_stages, and what else is not as Triton would have it."""
    kwargs = dict(config.kwargs)
    entry = {"kwargs": {name: constant(value) for name, value in kwargs.items()}}
    defaults = inspect.signature(type(config).__init__).parameters
    for name, value in config.all_kwargs().items():
        default = getattr(defaults.get(name), "default", _UNSET)
        if name not in kwargs and (name in ("num_warps", "num_stages") or value not in (default, None)):
            entry[name] = constant(value)
    return entry
