"""A launch's arguments as objects that every release specialises as it would a real call's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ..engine.messages import ArgumentSpec

# Triton's names for dtypes, and torch's.
TORCH_NAMES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
}
# What the language calls dtypes that print otherwise: `tl.float8e5` is `fp8e5` in a signature.
LANGUAGE_NAMES = {
    **{name: TORCH_NAMES[name] for name in ("fp64", "fp32", "fp16", "bf16")},
    **{f"fp8{form}": f"float8{form}" for form in ("e4nv", "e5", "e4b8", "e5b16", "e4b15")},
    "i1": "int1",
}


# Makes a tensor from its path, dtype and alignment in bytes. The path is the argument's name, with
# its place where it stands in a tuple.
TensorMaker = Callable[[str, str, int], Any]
# What stands in a kernel's module, for constants that are functions.
Names = Mapping[str, Any]
_Ints = Iterable[int]


class DType:
    """Prints as torch's dtype does; one object a name, for releases key caches by it."""

    _known: ClassVar[dict[str, DType]] = {}
    name: str

    def __new__(cls, name: str) -> DType:
        if name not in cls._known:
            cls._known[name] = object.__new__(cls)
            cls._known[name].name = name
        return cls._known[name]

    @property
    def is_floating_point(self) -> bool:
        return self.name.startswith(("float", "bfloat"))

    @property
    def itemsize(self) -> int:
        """Bytes an element, as torch's dtypes say it."""
        digits = re.search(r"\d+", self.name)
        if digits is None:  # bool
            return 1
        return max(int(digits[0]) // 8, 1)

    def __str__(self) -> str:
        return "torch." + self.name

    __repr__ = __str__


class Pointer:
    """A tensor without data: a dtype and an address aligned to `align` bytes; it has a `name` where
    it may end up in an autotuner's key."""

    name: str

    def __init__(self, dtype: str, align: int) -> None:
        self.dtype = DType(TORCH_NAMES[dtype])
        # Under 16 a multiple of `align` and of no greater power of two; beyond it no release looks.
        self._address = align if align % 16 else 1 << 20

    def data_ptr(self) -> int:
        return self._address

    def element_size(self) -> int:
        return self.dtype.itemsize

    def ptr_range(self) -> int:
        """Bytes that can be reached: under 2 GiB AMD's backend uses buffer operations."""
        return (1 << 31) - 1


class Named(int):
    """An integer that remembers which argument it is, for telling equal values apart in a key."""

    name: str

    def __new__(cls, name: str, value: int) -> Named:
        self = int.__new__(cls, value)
        self.name = name
        return self


def _pointer(path: str, dtype: str, align: int) -> Pointer:
    return Pointer(dtype, align)


def arguments(
    specs: Mapping[str, ArgumentSpec], names: Names | None = None, tensor: TensorMaker = _pointer
) -> dict[str, Any]:
    return {name: _value(name, spec, names or {}, tensor) for name, spec in specs.items()}


def constants(values: Mapping[str, Any], names: Names) -> dict[str, Any]:
    return {name: _constant(value, names) for name, value in values.items()}


def _value(path: str, spec: ArgumentSpec, names: Names, tensor: TensorMaker) -> Any:
    if not isinstance(spec, dict):
        return spec
    if "constexpr" in spec:
        return _constant(spec["constexpr"], names)
    if "descriptor" in spec:
        said = dict(spec["descriptor"])
        base = tensor(path, said.pop("dtype"), said.pop("align", 16))
        return _descriptor(base, **said)
    if "dtype" in spec:
        return tensor(path, spec["dtype"], spec.get("align", 16))
    if "tuple" in spec:
        items = enumerate(spec["tuple"])
        return tuple(_value(f"{path}[{place}]", item, names, tensor) for place, item in items)
    for kind in ("int", "float", "bool"):
        if kind in spec:
            return spec[kind]
    raise ValueError(f"an argument that flacheck cannot rebuild: {spec!r}")


def _descriptor(base: Any, shape: _Ints, strides: _Ints, block: _Ints, **extra: Any) -> Any:
    """A tensor descriptor made by the host; `extra` is what later releases can say of one. Raises
    ImportError under a release without them, or without that."""
    try:
        from triton.tools.tensor_descriptor import TensorDescriptor
    except ImportError:
        raise ImportError(
            "this release has no tensor descriptors made by the host; 3.4.0 brought them"
        ) from None
    lacking = [name for name in extra if name not in TensorDescriptor.__dataclass_fields__]
    if lacking:
        raise ImportError(f"this release's tensor descriptors have no {lacking[0]}")
    return TensorDescriptor(base, list(shape), list(strides), list(block), **extra)


def _constant(spec: Any, names: Names) -> Any:
    """A constexpr: a plain value, or `{"dtype"}`, `{"function"}`, `{"tuple"}`."""
    if not isinstance(spec, dict):
        return spec
    if "dtype" in spec:
        import triton.language

        dtype: str = spec["dtype"]
        return getattr(triton.language, LANGUAGE_NAMES.get(dtype, dtype))
    if "function" in spec and spec["function"] in names:
        return names[spec["function"]]
    if "tuple" in spec:
        return tuple(_constant(item, names) for item in spec["tuple"])
    raise ValueError(f"a constant that flacheck cannot rebuild: {spec!r}")
