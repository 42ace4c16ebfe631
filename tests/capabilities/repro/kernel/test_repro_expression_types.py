"""Types of a kernel's expressions, as the installed Triton gives them."""

from __future__ import annotations

import ast

import pytest

from flacheck.capabilities.repro.kernel.expression_types import (
    Constant,
    DTypeValue,
    Tensor,
    Type,
    read_types,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.partial_evaluation import evaluate_constants
from tests.made_specimens import POINTER, chain, specimen

SCALAR_STORE = "tl.store(x, 0.0)"


def types_by_text(one: Specimen) -> dict[str, Type]:
    """Return the type of each expression of a kernel by its text."""
    return {ast.unparse(node): kind for node, kind in one.types.items()}


def test_types_go_through_a_whole_kernel() -> None:
    """Types pass through loads, dots, casts and loop-carried values."""
    types = types_by_text(evaluate_constants(chain()))
    assert types["p"] == Tensor("*fp16", (64, 128))
    assert types["a"] == Tensor("fp16", (64, 128))
    assert types["g"] == Tensor("fp32", (64, 128))
    assert types["acc + s"] == Tensor("fp32", (64, 64))
    assert types["i"] == Tensor("i32")


def test_dtypes_and_constants_are_types_of_their_own() -> None:
    """`x.dtype.element_ty` is a dtype, None and a constexpr are constants."""
    body = "a = tl.load(x, mask=None).to(x.dtype.element_ty)\ntl.store(x, a + N)"
    types = types_by_text(specimen(body, x=POINTER, N={"constexpr": 3}))
    assert types["x.dtype.element_ty"] == DTypeValue("fp16")
    assert types["None"] == Constant("None")
    assert types["N"] == Constant("3")


def test_an_expression_behind_an_error_has_no_type() -> None:
    """The front end ends at an error, and the types before it are known."""
    types = types_by_text(specimen("a = tl.load(x)\nb = unknown(a)\nc = a + a", x=POINTER))
    assert types["tl.load(x)"] == Tensor("fp16")
    assert "a + a" not in types


def test_a_value_with_two_types_has_none() -> None:
    """An expression of an unrolled loop is read several times, and its types must agree."""
    body = "a = tl.zeros([16], tl.float16)\nfor i in tl.static_range(2):\n    a = a[None]\n"
    types = types_by_text(specimen(body + SCALAR_STORE, x=POINTER))
    assert "a[None]" not in types
    assert types["tl.zeros([16], tl.float16)"] == Tensor("fp16", (16,))


@pytest.mark.parametrize("reply", [None, 1, [["Name"]], [[["Name", 2, 4, 2, 5], {"kind": 1}]]])
def test_a_malformed_reply_has_no_types(reply: object) -> None:
    """The worker's reply is checked, since a kernel's source can change it."""
    assert read_types(specimen(SCALAR_STORE, x=POINTER).function, reply) == {}
