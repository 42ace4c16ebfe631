"""Dimensions of tensors that code implies."""

# The driver imports torch, and the functions here are read and never called.
# ruff: noqa: E402, F841, RUF059

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference.code_shapes import code_shapes, parameter_aliases
from flacheck.guest.inference.operators import FUNCTION, Operator
from flacheck.guest.inference.plans import CallPlan, Recipe
from flacheck.guest.inference.shapes import Shapes


def dimensions(function: Any) -> dict[str, Any]:
    """Return the dimensions of the function's parameters that have any."""
    shapes = {name: shape.dimensions() for name, shape in code_shapes(function).items()}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def attention(q, k, table, out, n):  # type: ignore[no-untyped-def]
    heads, kv_heads = q.shape[1], k.size(2)
    width = q.shape[-1]
    return launch(q.stride(0), q.stride(1), q.stride(2), table.stride(0), n.shape[0], k, out)


def launch(*rest: Any) -> Any:
    return rest


def outer(q, cache):  # type: ignore[no-untyped-def]
    return attention(q, cache, q, q, q)


def test_the_highest_index_gives_the_rank() -> None:
    """Variables name extents; a single extent, which every tensor has, gives no rank."""
    assert dimensions(attention) == {
        "q": ("B", "heads", "width"),
        "k": ("B", "T", "kv_heads"),
        "table": ("D",),
    }


def test_a_callee_gives_the_dimensions_of_its_arguments() -> None:
    """A tensor has the dimensions that the callee reads of its parameter."""
    assert dimensions(outer)["cache"] == ("B", "T", "kv_heads")


def inner(k: Any, w: Any) -> None:
    _, T, D = k.shape
    H, V = w.size()


def unpacking(q: Any, k: Any, v: Any, weight: Any) -> None:
    B, T, H, K, V = *q.shape, v.shape[-1]
    inner(k, w=weight)


def test_code_unpacks_shapes() -> None:
    """An unpacked shape has all dimensions, also in a callee."""
    assert dimensions(unpacking) == {
        "q": ("B", "T", "H", "K"),
        "k": ("B", "T", "D"),
        "weight": ("H", "V"),
    }


def asserting(x, weight, bias, cache, mask):  # type: ignore[no-untyped-def]
    batch, tokens, K = x.shape
    assert weight.shape[0] == K, "weight must have K rows"
    assert weight.ndim == 2 and bias.shape == (K,)
    if cache.shape[2] != x.shape[1] or cache.dim() != 3:
        raise ValueError("cache")
    mask = mask.view(-1)
    return launch(mask.stride(1))


def test_assertions_give_dimensions() -> None:
    """A dimension that is compared with a name or with another dimension has its extent."""
    assert dimensions(asserting) == {
        "x": ("batch", "tokens", "K"),
        "weight": ("K", "D"),
        "bias": ("K",),
        "cache": ("B", "T", "tokens"),
    }


def operator(function: Any) -> Operator:
    parameters = tuple(inspect.signature(function).parameters.values())
    name = f"{__name__}:{function.__name__}"
    return Operator(name, function, FUNCTION, True, frozenset(), parameters, function)


def first_shape(function: Any, name: str) -> Any:
    function_operator = operator(function)
    return Shapes(Recipe({})).candidates(function_operator, CallPlan(), name)[0]


def test_the_code_decides_between_usual_shapes_of_a_name() -> None:
    """A usual shape with as many dimensions as the code reads comes first."""
    assert first_shape(attention, "q") == ("B", "heads", "width")
    # The code reads the third dimension of `k`: keys with four dimensions have one.
    assert first_shape(attention, "k") == ("B", "T", "kv_heads", "K")
    assert first_shape(asserting, "weight") == ("K", "D")


def walk(x, w, rest):  # type: ignore[no-untyped-def]
    rows, columns = w.stride()
    first, *others = rest.stride()
    return rows, columns, first, others


def test_unpacked_strides_give_the_rank() -> None:
    """Each dimension has a stride; a star may take any number."""
    assert dimensions(walk) == {"w": ("T", "D")}


def copy(indices, x, rest, twice):  # type: ignore[no-untyped-def]
    rows = indices.to(torch.int32).contiguous()
    x = x.contiguous()
    others = rest.view(-1)
    again = twice.clone()
    again = others
    return walk(x, rows, again)


def test_what_is_copied_under_another_name_is_followed() -> None:
    """A tensor of another shape, or a name with two values, is not followed."""
    assert parameter_aliases(ast.parse(textwrap.dedent(inspect.getsource(copy))).body[0]) == {
        "rows": "indices"
    }
    assert dimensions(copy)["indices"] == ("T", "D")


def multiplying(a, b):  # type: ignore[no-untyped-def]
    assert a.shape[1] == b.shape[0], "Incompatible dimensions"
    return launch(a.stride(1), b.stride(1))


def test_equal_dimensions_of_two_tensors_have_one_name() -> None:
    """The inner dimension of a product is that of both matrices."""
    assert dimensions(multiplying) == {"a": ("T", "D"), "b": ("D", "D")}
