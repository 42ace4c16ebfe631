"""A launch's arguments as objects that every release specialises like those of a real call."""

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
# The language's names for dtypes that print differently: `tl.float8e5` is `fp8e5` in a signature.
LANGUAGE_NAMES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8e4nv": "float8e4nv",
    "fp8e5": "float8e5",
    "fp8e4b8": "float8e4b8",
    "fp8e5b16": "float8e5b16",
    "fp8e4b15": "float8e4b15",
    "i1": "int1",
}


# Makes a tensor from its path, dtype and alignment in bytes. The path is the argument's name, with
# its index if it is in a tuple.
TensorMaker = Callable[[str, str, int], Any]
# The names in a kernel's module, for constants that are functions.
Names = Mapping[str, Any]
_Ints = Iterable[int]


class DType:
    """A dtype that prints like torch's; one object a name, because releases key caches by it."""

    _by_name: ClassVar[dict[str, DType]] = {}
    name: str

    def __new__(cls, name: str) -> DType:
        if name not in cls._by_name:
            cls._by_name[name] = object.__new__(cls)
            cls._by_name[name].name = name
        return cls._by_name[name]

    @property
    def is_floating_point(self) -> bool:
        return self.name.startswith(("float", "bfloat"))

    @property
    def itemsize(self) -> int:
        """The bytes of an element, as for torch's dtypes."""
        digits = re.search(r"\d+", self.name)
        if digits is None:  # bool
            return 1
        return max(int(digits[0]) // 8, 1)

    def __str__(self) -> str:
        return "torch." + self.name

    __repr__ = __str__


class Pointer:
    """A tensor without data: a dtype and an address that is aligned to `align` bytes.

    It has a `name` if it may become part of an autotuner's key.
    """

    name: str

    def __init__(self, dtype: str, align: int) -> None:
        self.dtype = DType(TORCH_NAMES[dtype])
        # Below 16, the address is a multiple of `align` and not of any greater power of two. No
        # release uses more than 16.
        self._address = align if align % 16 else 1 << 20

    def data_ptr(self) -> int:
        return self._address

    def element_size(self) -> int:
        return self.dtype.itemsize

    def ptr_range(self) -> int:
        """Return the reachable bytes: below 2 GiB AMD's backend uses buffer operations."""
        return (1 << 31) - 1


class Named(int):
    """An integer with its argument's name, which tells equal values in a key apart."""

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
    arguments = {}
    for name, spec in specs.items():
        arguments[name] = _value(name, spec, names or {}, tensor)
    return arguments


def constants(values: Mapping[str, Any], names: Names) -> dict[str, Any]:
    constants = {}
    for name, value in values.items():
        constants[name] = _constant(value, names)
    return constants


def _value(path: str, spec: ArgumentSpec, names: Names, tensor: TensorMaker) -> Any:
    if not isinstance(spec, dict):
        return spec
    if "constexpr" in spec:
        return _constant(spec["constexpr"], names)
    if "descriptor" in spec:
        fields = dict(spec["descriptor"])
        dtype = fields.pop("dtype")
        base = tensor(path, dtype, fields.pop("align", 16))
        return _descriptor(base, **fields)
    if "dtype" in spec:
        return tensor(path, spec["dtype"], spec.get("align", 16))
    if "tuple" in spec:
        items = enumerate(spec["tuple"])
        return tuple(_value(f"{path}[{place}]", item, names, tensor) for place, item in items)
    if "list" in spec:
        # Only the checks of a capture have lists, which Triton treats in another way than tuples.
        return list(_value(path, {"tuple": spec["list"]}, names, tensor))
    for kind in ("int", "float", "bool"):
        if kind in spec:
            return spec[kind]
    raise ValueError(f"an argument that flacheck cannot rebuild: {spec!r}")


def _descriptor(base: Any, shape: _Ints, strides: _Ints, block: _Ints, **extra: Any) -> Any:
    """Return a tensor descriptor made by the host.

    `extra` holds the options of later releases. Raises ImportError if the release lacks descriptors
    or an option.
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


def _constant(spec: Any, names: Names) -> Any:
    """Return a constexpr: a plain value, or that of `{"dtype"}`, `{"function"}`, `{"tuple"}`."""
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
