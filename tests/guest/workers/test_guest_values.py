"""Arguments and constants of a launch, rebuilt from their JSON."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from flacheck.guest.recorder.launch_description import constant
from flacheck.guest.workers.cut import literal
from flacheck.guest.workers.values import DType, Pointer, arguments, constants

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")


def test_plain_arguments_are_what_they_say() -> None:
    """Null and bare values, and values in their objects."""
    specs: dict[str, Any] = {"a": None, "b": 3, "c": {"int": 4}, "d": {"float": 0.5}}
    specs |= {"e": {"bool": True}, "f": {"constexpr": 64}, "g": {"tuple": [{"int": 1}, None]}}
    values = {"a": None, "b": 3, "c": 4, "d": 0.5, "e": True, "f": 64, "g": (1, None)}
    assert arguments(specs) == values


@pytest.mark.parametrize(("align", "divisor"), [(16, 16), (8, 8), (4, 4), (1, 1)])
def test_a_pointer_is_aligned_as_said(align: int, divisor: int) -> None:
    """The pointer is aligned to exactly this number of bytes if it is less than 16."""
    pointer = arguments({"x": {"dtype": "bf16", "align": align}})["x"]
    assert isinstance(pointer, Pointer)
    assert pointer.data_ptr() % divisor == 0
    assert (pointer.data_ptr() % 16 == 0) == (align == 16)
    assert pointer.element_size() == 2


def test_a_dtype_is_one_object_a_name() -> None:
    """Releases key caches by it; it prints and measures as torch's does."""
    names = ("bfloat16", "float8_e4m3fn", "bool", "int64", "complex64")
    assert DType("bfloat16") is DType("bfloat16")
    assert [str(DType(name)) for name in names[:2]] == ["torch.bfloat16", "torch.float8_e4m3fn"]
    assert [DType(name).itemsize for name in names] == [2, 1, 1, 8, 8]
    assert [DType(name).is_floating_point for name in names] == [True, True, False, False, False]


def test_whoever_has_tensors_makes_them() -> None:
    """The tensor has the argument's name, with its place in a tuple."""
    specs: dict[str, Any] = {
        "x": {"dtype": "fp32", "align": 4},
        "y": {"tuple": [{"int": 1}, {"dtype": "i64"}]},
    }
    values = arguments(specs, tensor=lambda path, dtype, align: (path, dtype, align))
    assert values == {"x": ("x", "fp32", 4), "y": (1, ("y[1]", "i64", 16))}


def test_functions_come_from_the_kernels_module() -> None:
    """A function that the module lacks, or a value without a description, cannot be rebuilt."""
    names = {"silu": len}
    assert constants({"ACT": {"function": "silu"}, "T": {"tuple": [1, 2]}}, names) == {
        "ACT": len,
        "T": (1, 2),
    }
    with pytest.raises(ValueError, match="a constant that flacheck cannot rebuild"):
        constants({"ACT": {"function": "gelu"}}, names)
    with pytest.raises(ValueError, match="an argument that flacheck cannot rebuild"):
        arguments({"x": {"unknown": "tensor of complex32"}})


@needs_triton
def test_a_dtype_constant_is_the_languages_own() -> None:
    """The constant is found under torch's name or under Triton's."""
    import triton.language as tl

    values = constants({"A": {"dtype": "bf16"}, "B": {"dtype": "int32"}}, {})
    assert values["B"] is tl.int32
    assert values["A"] is tl.bfloat16


@needs_triton
def test_every_dtype_of_the_language_comes_back() -> None:
    """Every dtype constant of a record and of a cut source is rebuilt, though releases print some
    of them under other names."""
    import triton.language as tl

    dtypes = {value for value in vars(tl).values() if type(value) is tl.dtype}
    assert {tl.float8e4nv, tl.float8e5, tl.bfloat16, tl.int1, tl.uint8} <= dtypes
    for dtype in dtypes:
        assert constants({"A": constant(dtype, {})}, {})["A"] is dtype
        assert eval(literal(dtype), {"tl": tl}) is dtype
