"""The dimensions of tensors by what code asks of them one by one, by comments and annotations, and
by the branches that they decide."""

# The driver imports torch, and the functions here are read and never called.
# ruff: noqa: E402, F841

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference.index_shapes import IndexShape, parameter_aliases
from flacheck.guest.inference.operators import FUNCTION, Operator
from flacheck.guest.inference.plans import CallPlan, Recipe
from flacheck.guest.inference.shapes import Shapes, documented_shapes, read_shapes


def attention(q, k, table, out, n):  # type: ignore[no-untyped-def]
    heads, kv_heads = q.shape[1], k.size(2)
    width = q.shape[-1]
    return launch(q.stride(0), q.stride(1), q.stride(2), table.stride(0), n.shape[0], k, out)


def launch(*rest: Any) -> Any:
    return rest


def outer(q, cache):  # type: ignore[no-untyped-def]
    return attention(q, cache, q, q, q)


def test_the_highest_index_tells_the_rank() -> None:
    """Variables name extents; one extent alone, which every tensor has, tells nothing."""
    told = read_shapes(attention)
    assert told["q"] == IndexShape(("B", "heads", "width"), is_complete=True)
    assert told["k"] == IndexShape(("B", "T", "kv_heads"), is_complete=False)
    assert told["table"] == IndexShape(("D",), is_complete=True)
    assert told.keys() == {"q", "k", "table"}


def test_what_is_handed_on_is_asked_for_there() -> None:
    """By the parameter that it becomes."""
    assert read_shapes(outer)["cache"] == IndexShape(("B", "T", "kv_heads"), is_complete=False)


def operator(function: Any) -> Operator:
    parameters = tuple(inspect.signature(function).parameters.values())
    name = f"{__name__}:{function.__name__}"
    return Operator(name, function, FUNCTION, True, frozenset(), parameters, function)


def first_shape(function: Any, name: str) -> Any:
    offered = operator(function)
    return Shapes([offered], Recipe({})).candidates(offered, CallPlan(), name)[0]


def test_the_code_decides_between_what_a_name_may_mean() -> None:
    """A name that stands for so many dimensions is right; another is not."""
    assert first_shape(attention, "q") == ("B", "heads", "width")
    # Of `k` only the third dimension is asked for: the four of keys have one.
    assert first_shape(attention, "k") == ("B", "T", "H", "K")


class IntTensor:
    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def commented(
    x: Any,  # [batch, heads, dim]
    index: Any,  # [Bi] - int64
    plain: Any,  # (optional)
    rows: IntTensor[n, 4],  # type: ignore[name-defined,type-arg,valid-type]  # noqa: F821
    named: Float[Tensor, "b t d"],  # type: ignore[name-defined]  # noqa: F821, F722
) -> None: ...


def test_signatures_spell_out_shapes() -> None:
    """In comments behind parameters and in annotations."""
    assert documented_shapes(commented) == {
        "x": ("batch", "heads", "dim"),
        "index": ("Bi",),
        "rows": ("n", "4"),
        "named": ("B", "T", "D"),
    }


def walked(x, w, rest):  # type: ignore[no-untyped-def]
    rows, columns = w.stride()
    first, *others = rest.stride()
    return rows, columns, first, others


def test_strides_that_are_unpacked_tell_the_rank() -> None:
    """There is one for each dimension; how many a star takes is not known."""
    assert read_shapes(walked) == {"w": IndexShape(("T", "D"), is_complete=True)}


def copied(indices, x, rest, twice):  # type: ignore[no-untyped-def]
    rows = indices.to(torch.int32).contiguous()
    x = x.contiguous()
    others = rest.view(-1)
    again = twice.clone()
    again = others
    return walked(x, rows, again)


def test_what_is_copied_under_another_name_is_followed() -> None:
    """Not what is given another shape, nor a name that is given two things."""
    assert parameter_aliases(ast.parse(textwrap.dedent(inspect.getsource(copied))).body[0]) == {
        "rows": "indices"
    }
    assert read_shapes(copied)["indices"] == IndexShape(("T", "D"), is_complete=True)
