"""A launch's arguments as objects that every release specialises as it would a real call's."""

from __future__ import annotations

import itertools
from typing import ClassVar

_TORCH = {
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
_LANGUAGE = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class DType:
    """Prints as torch's dtype does; one object a name, for releases key caches by it."""

    _known: ClassVar[dict[str, DType]] = {}

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
        digits = "".join(
            itertools.takewhile(str.isdigit, itertools.dropwhile(str.isalpha, self.name))
        )
        return max(int(digits or 8) // 8, 1)

    def __str__(self) -> str:
        return "torch." + self.name

    __repr__ = __str__


class Pointer:
    """A tensor without data: a dtype and an address aligned to `align` bytes."""

    def __init__(self, dtype: str, align: int) -> None:
        self.dtype = DType(_TORCH[dtype])
        self._address = align if align % 16 else 1 << 20

    def data_ptr(self) -> int:
        return self._address

    def element_size(self) -> int:
        return self.dtype.itemsize

    def ptr_range(self) -> int:
        return (1 << 31) - 1


class Named(int):
    """An integer that remembers which argument it is, for telling equal values apart in a key."""

    name: str

    def __new__(cls, name: str, value: int) -> Named:
        self = int.__new__(cls, value)
        self.name = name
        return self


def value(spec, language, names=None):
    """One argument of a launch; `language` is the release's `triton.language`, `names` what stands
    in the kernel's module, for constants that are functions.
    """
    if spec is None or isinstance(spec, (bool, int, float, str)):
        return spec
    if "constexpr" in spec:
        return _constant(spec["constexpr"], language, names or {})
    if "descriptor" in spec:
        return _descriptor(**spec["descriptor"])
    if "dtype" in spec:
        return Pointer(spec["dtype"], spec.get("align", 16))
    if "tuple" in spec:
        return tuple(value(item, language, names) for item in spec["tuple"])
    for kind in ("int", "float", "bool"):
        if kind in spec:
            return spec[kind]
    raise ValueError(f"an argument that flacheck cannot rebuild: {spec!r}")


def torch_name(dtype: str) -> str:
    """What torch calls a dtype."""
    return _TORCH[dtype]


def _descriptor(dtype: str, shape, strides, block, align: int = 16, **extra):
    return descriptor(Pointer(dtype, align), shape, strides, block, **extra)


def descriptor(base, shape, strides, block, **extra):
    """A tensor descriptor made by the host; `extra` is what later releases can say of one.

    Raises ImportError under a release without them, or without that.
    """
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


def _constant(spec, language, names):
    if isinstance(spec, dict):
        if "dtype" in spec:
            return getattr(language, _LANGUAGE.get(spec["dtype"], spec["dtype"]))
        if "function" in spec and spec["function"] in names:
            return names[spec["function"]]
        if "tuple" in spec:
            return tuple(_constant(item, language, names) for item in spec["tuple"])
        raise ValueError(f"a constant that flacheck cannot rebuild: {spec!r}")
    return spec
