"""Arguments and configurations of a launch in the contract's form: what they are, never what is in
them.

`functions` throughout are the jit functions that the launch hands over, with their names in the
kernel's module.
"""

from __future__ import annotations

import inspect
import math

_NAMES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16",
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}
_LANGUAGE = {"int1": "i1"}
_ALIGNMENT = 16
_UNSET = object()


def argument(value, functions):
    """One argument: `{"dtype", "align"}`, `{"int"}`, `{"float"}`, `{"bool"}`, `{"tuple"}`,
    `{"constexpr"}` or None.

    One that has no such form is `{"unknown": its type}`; a launch with it cannot be built again.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return {"bool": value}
    if type(value).__name__ == "constexpr":
        return {"constexpr": constant(value.value, functions)}
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return _tensor(value)
    if isinstance(value, (tuple, list)):
        return {"tuple": [argument(item, functions) for item in value]}
    if hasattr(value, "base") and hasattr(value, "block_shape"):
        described = _descriptor(value)
        return described if "unknown" in described else {"descriptor": described}
    return _number(value, functions)


def _number(value, functions):
    if hasattr(value, "__index__"):
        return {"int": value.__index__()}
    if hasattr(value, "__float__"):
        return {"float": float(value)}
    if isinstance(value, str):
        return {"constexpr": value}
    special = constant(value, functions)
    return special if isinstance(special, dict) and "unknown" in special else {"constexpr": special}


def _tensor(value) -> dict:
    dtype = str(value.dtype).rpartition(".")[2]
    return (
        {"dtype": _NAMES[dtype], "align": _align(value)}
        if dtype in _NAMES
        else {"unknown": f"tensor of {dtype}"}
    )


def _align(tensor) -> int:
    """The largest power of two up to 16 that divides the address."""
    return math.gcd(tensor.data_ptr(), _ALIGNMENT)


def _descriptor(value) -> dict:
    """A tensor descriptor that the host made; what later releases added to it stands there when it
    is used.
    """
    extra = {name: getattr(value, name, None) for name in ("padding", "round_f32_to_tf32")}
    return {
        **_tensor(value.base),
        "shape": [int(extent) for extent in value.shape],
        "strides": [int(stride) for stride in value.strides],
        "block": [int(extent) for extent in value.block_shape],
        **{name: said for name, said in extra.items() if said not in (None, False, "zero")},
    }


def constant(value, functions=None):
    """A constexpr: a literal, `{"dtype"}` of the language, `{"tuple"}`, `{"function"}`, or
    `{"unknown"}`.
    """
    if value is None or isinstance(value, bool):
        return value
    for plain in (int, float, str):
        if isinstance(value, plain):
            return plain(value) if plain is not str else str.__str__(value)
    kind = type(value)
    if kind.__name__ == "constexpr":
        return constant(value.value, functions)
    if kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        return {"dtype": _LANGUAGE.get(str(value), str(value))}
    if isinstance(value, (tuple, list)):
        return {"tuple": [constant(item, functions) for item in value]}
    if kind.__name__ == "JITFunction":
        return {"function": (functions or {}).get(value, value.fn.__name__)}
    if hasattr(value, "__index__"):
        return value.__index__()
    if hasattr(value, "__float__"):
        return float(value)
    return {"unknown": f"{kind.__module__}.{kind.__qualname__}"}


def configuration(config, functions=None) -> dict:
    """An autotune configuration: `kwargs`, num_warps, num_stages, and what else is not as Triton
    would have it.
    """
    kwargs = dict(config.kwargs)
    entry = {"kwargs": {name: constant(value, functions) for name, value in kwargs.items()}}
    defaults = inspect.signature(type(config).__init__).parameters
    for name, value in config.all_kwargs().items():
        default = getattr(defaults.get(name), "default", _UNSET)
        if name not in kwargs and (
            name in ("num_warps", "num_stages") or value not in (default, None)
        ):
            entry[name] = constant(value)
    return entry
