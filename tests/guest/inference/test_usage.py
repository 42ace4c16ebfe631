"""Kinds of a kernel's parameters by their use in its code."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import ast
import importlib.util
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference.usage import kernel_parameter_kinds
from flacheck.guest.pysource.functions import function_tree, names_in_scope

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
    """An address begins with a pointer, and the entries that addresses are computed from are
    indices."""
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


HELPERS = """
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
    file.write_text(HELPERS)
    spec = importlib.util.spec_from_file_location("helped", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outer = module.outer.fn
    node = function_tree(outer)
    assert node is not None
    kinds = kernel_parameter_kinds(node, names_in_scope(outer))
    assert kinds == {"X": "Tensor", "Scale": "Tensor", "n": "int"}
