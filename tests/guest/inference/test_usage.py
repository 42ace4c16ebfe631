"""What arguments without an annotation are, by what is done with them."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import ast
import importlib.util
import textwrap
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference.operators import LAYER, Operator, parameters_of
from flacheck.guest.inference.usage import (
    kernel_parameter_kinds,
    local_kernels,
    parameter_kinds,
    positional_names,
)


def host(x, n, causal, where, name):  # type: ignore[no-untyped-def]
    rows = x.stride(0) % n
    return inner(where, rows) if not causal else name


def inner(indices, count):  # type: ignore[no-untyped-def]
    return torch.empty_like(indices), range(count)


def test_a_function_around_it_defines_what_it_calls() -> None:
    """A variable of an enclosing function is followed like one of the module."""

    def rows(x):  # type: ignore[no-untyped-def]
        return x.stride(0)

    def outer(x):  # type: ignore[no-untyped-def]
        return rows(x)

    assert parameter_kinds(outer) == {"x": "Tensor"}


def test_a_function_tells_by_what_it_does() -> None:
    """Also by what the functions do that it calls; of some nothing is told."""
    assert parameter_kinds(host) == {"x": "Tensor", "n": "int", "causal": "bool", "where": "Tensor"}


def test_a_keyword_tells_a_dtype() -> None:
    def quantized(x, kind):  # type: ignore[no-untyped-def]
        return torch.empty_like(x, dtype=kind)

    assert parameter_kinds(quantized) == {"x": "Tensor", "kind": "torch.dtype"}


def annotated(q: Any, scale: Any) -> Any:
    return q.shape, scale % 2


def test_a_number_called_scale_is_a_fraction() -> None:
    """Sizes and offsets have other names."""
    assert parameter_kinds(annotated) == {"q": "Tensor", "scale": "float"}


KERNEL = """
@triton.jit
def kernel(X, Out, Table, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    page = tl.load(Table + row).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    address = X + page * stride + columns
    mask = columns < n
    tl.store(Out + row * stride + columns, tl.load(address, mask=mask), mask=mask)
"""


def test_a_kernel_tells_pointers_indices_and_numbers() -> None:
    """What begins an address is a pointer; entries that addresses are made of are indices."""
    node = ast.parse(textwrap.dedent(KERNEL)).body[0]
    assert isinstance(node, ast.FunctionDef)
    assert kernel_parameter_kinds(node) == {
        "X": "Tensor",
        "Out": "Tensor",
        "Table": "IndexTensor",
        "stride": "int",
        "n": "int",
        "BLOCK": "int",
    }


def positions(*args: Any, **kwargs: Any) -> Any:
    x = args[0] if args else kwargs.get("input")
    value = args[1]
    return torch.empty_like(x), range(value)


def test_arguments_without_names_are_called_what_the_code_calls_them() -> None:
    """And are what is done with them."""
    assert positional_names(positions) == ["x", "value"]
    told = [(each.name, each.annotation) for each in parameters_of(positions)]
    assert told == [("x", "Tensor"), ("value", "int")]


def building() -> Any:
    import triton

    @triton.jit
    def kernel(x): ...  # type: ignore[no-untyped-def]

    def host(x: Any) -> Any:
        return kernel[(1,)](x)

    return host


def test_kernels_that_a_function_defines_are_known_before_it_is_called() -> None:
    """By their names; plain functions in it are none."""
    assert local_kernels(building) == ["kernel"]
    assert local_kernels(host) == []


HELPED = """
import triton
import triton.language as tl


@triton.jit
def inner(scale_ptr, rows):
    return tl.load(scale_ptr + rows)


@triton.jit
def outer(X, Scale, n):
    scales = Scale + n
    return inner(scales, n) + tl.load(X)
"""


def test_a_kernel_does_what_the_kernels_do_that_it_calls(tmp_path: Path) -> None:
    """A pointer may be handed on, moved by an offset."""
    pytest.importorskip("triton")
    file = tmp_path / "helped.py"
    file.write_text(HELPED)
    spec = importlib.util.spec_from_file_location("helped", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert parameter_kinds(module.outer.fn) == {"X": "Tensor", "Scale": "Tensor", "n": "int"}


def widths(dims, scales, sizes):  # type: ignore[no-untyped-def]
    wide = tuple(int(each) for each in dims)
    return wide, [float(each) for each in scales], [str(each) for each in sizes]


def test_what_is_walked_through_as_numbers_is_several() -> None:
    """Each made a number of; what is made something else tells nothing."""
    assert parameter_kinds(widths) == {"dims": "list[int]", "scales": "list[float]"}


class Wide:
    def __init__(self, dims):  # type: ignore[no-untyped-def]
        self.dims = tuple(int(each) for each in dims)

    @classmethod
    def made(cls, dims):  # type: ignore[no-untyped-def]
        return [int(each) for each in dims]


def test_constructors_and_class_methods_tell_as_functions_do() -> None:
    """By what they do with their arguments."""
    assert [each.annotation for each in parameters_of(Wide)] == ["list[int]"]
    assert [each.annotation for each in parameters_of(Wide.made)] == ["list[int]"]


def parsed(*args):  # type: ignore[no-untyped-def]
    if len(args) == 2:
        x, y = args
        return x.shape, y
    weights, x, y = args
    return weights


class Loss(torch.nn.Module):
    def forward(self, *args, reduce=True):  # type: ignore[no-untyped-def]
        return parsed(*args), reduce


def test_what_is_unpacked_of_all_arguments_has_their_names() -> None:
    """Also where a function hands them all to another, and in a layer's forward."""
    assert positional_names(parsed) == ["x", "y"]
    loss = Operator("m:Loss", Loss, LAYER, True, frozenset(), parameters_of(Loss), Loss.forward)
    assert [each.name for each in loss.takes] == ["x", "y", "reduce"]
    assert [each.kind.name for each in loss.takes[:2]] == ["POSITIONAL_ONLY"] * 2
