"""Types of a kernel's expressions, found without a compiler."""

from __future__ import annotations

import pytest

from flacheck.capabilities.repro.kernel.block_types import (
    BlockPointer,
    Constant,
    DTypeValue,
    IllTyped,
    Tensor,
    Type,
    Unknown,
    arithmetic,
    broadcast,
)
from flacheck.capabilities.repro.kernel.syntax_trees import all_statements, assignment
from flacheck.capabilities.repro.kernel.type_inference import (
    argument_type,
    infer_kernel,
    infer_types,
)
from flacheck.capabilities.repro.passes.partial_evaluation import evaluate_constants
from tests.made_specimens import POINTER, chain, specimen


def types_of(body: str) -> dict[str, Type]:
    """The type of each variable of a kernel with a pointer `x` and numbers `n` and `e`."""
    return types_by_name(body, {"x": POINTER, "n": {"int": 8}, "e": {"float": 0.5}})


def types_by_name(body: str, args: dict[str, object]) -> dict[str, Type]:
    one = specimen(body, **args)
    types = infer_types(one)
    plain = filter(None, map(assignment, all_statements(one.function.body)))
    return {name: types[value] for name, value in plain}


def test_types_go_through_a_whole_kernel() -> None:
    """Types pass through loads, dots, casts and loop-carried values."""
    after = evaluate_constants(chain())
    types = infer_types(after)
    plain = filter(None, map(assignment, all_statements(after.function.body)))
    by_name = {name: types[value] for name, value in plain}
    assert by_name["a"] == Tensor("fp16", (64, 128))
    assert by_name["g"] == Tensor("fp32", (64, 128))
    assert by_name["b"] == Tensor("fp16", (64, 128))
    assert by_name["acc"] == Tensor("fp32", (64, 64))


BLOCK = "tl.zeros([16, 32], tl.float16)"


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        (BLOCK, Tensor("fp16", (16, 32))),
        ("tl.full((16, 32), 1.0, dtype=tl.float32)", Tensor("fp32", (16, 32))),
        ("tl.zeros_like(b)", Tensor("fp16", (16, 32))),
        ("tl.arange(0, 64)", Tensor("i32", (64,))),
        ("tl.arange(32, 64)", Tensor("i32", (32,))),
        ("tl.load(x)", Tensor("fp16")),
        ("tl.load(x + tl.arange(0, 64), mask=None)", Tensor("fp16", (64,))),
        ("b.to(tl.float32)", Tensor("fp32", (16, 32))),
        ("tl.cast(b, dtype=tl.bfloat16)", Tensor("bf16", (16, 32))),
        ("tl.exp(b)", Tensor("fp16", (16, 32))),
        ("tl.math.exp(b)", Tensor("fp16", (16, 32))),
        ("tl.maximum(0, b)", Tensor("fp16", (16, 32))),
        ("tl.where(b > 0, b, 0.0)", Tensor("fp16", (16, 32))),
        ("tl.where(b > 0, b, float('-inf'))", Tensor("fp16", (16, 32))),
        ("tl.where(b > 0, 1.0, 0.0)", Tensor("fp32", (16, 32))),
        ("tl.where(b > 0, 1, 0)", Tensor("i32", (16, 32))),
        ("tl.trans(b)", Tensor("fp16", (32, 16))),
        ("tl.permute(b, (1, 0))", Tensor("fp16", (32, 16))),
        ("tl.permute(b, 0, 1)", Tensor("fp16", (16, 32))),
        ("tl.reshape(b, (8, 64))", Tensor("fp16", (8, 64))),
        ("tl.reshape(b, 8, 64)", Tensor("fp16", (8, 64))),
        ("tl.broadcast_to(b, shape=(16, 32))", Tensor("fp16", (16, 32))),
        ("tl.expand_dims(b, 1)", Tensor("fp16", (16, 1, 32))),
        ("tl.sum(b)", Tensor("fp16")),
        ("tl.sum(b, axis=1)", Tensor("fp16", (16,))),
        ("b.sum(axis=-1)", Tensor("fp16", (16,))),
        ("tl.sum(b, 0, True)", Tensor("fp16", (1, 32))),
        ("tl.sum(b > 0, 0)", Tensor("i32", (32,))),
        ("tl.min(b.to(tl.uint8), 0)", Tensor("i32", (32,))),
        ("tl.max(b.to(tl.int64), 0)", Tensor("i64", (32,))),
        ("tl.sum(n, 0)", None),
        ("tl.max(b, 0, keep_dims=True)", Tensor("fp32", (1, 32))),
        ("tl.sum(b.to(tl.bfloat16), 0)", Tensor("fp32", (32,))),
        ("tl.argmax(b, 1)", Tensor("i32", (16,))),
        ("tl.dot(b, tl.trans(b))", Tensor("fp32", (16, 16))),
        ("tl.dot(b, tl.trans(b), out_dtype=tl.float16)", Tensor("fp16", (16, 16))),
        ("tl.dot(b.to(tl.int8), b.T.to(tl.int8))", Tensor("i32", (16, 16))),
        ("tl.dot(b.to(tl.float64), b.T.to(tl.float64))", Tensor("fp64", (16, 16))),
        ("tl.dot(tl.arange(0, 16), b)", None),
        ("tl.exp()", None),
        ("tl.program_id(0)", Tensor("i32")),
        ("tl.cdiv(n, 64)", Tensor("i32")),
        ("min(n, 64)", Tensor("i32")),
        ("b.T", Tensor("fp16", (32, 16))),
        ("b.dtype", DTypeValue("fp16")),
        ("x.dtype.element_ty", DTypeValue("fp16")),
        ("b[None, :, :]", Tensor("fp16", (1, 16, 32))),
        ("(b, n)[1]", Tensor("i32")),
        ("-b", Tensor("fp16", (16, 32))),
        ("-3", Constant(-3)),
        ("b * e", Tensor("fp32", (16, 32))),
        ("n / 2", Tensor("fp32")),
        ("b == b", Tensor("i1", (16, 32))),
        ("unknown(b)", None),
        ("tl.zeros([16, n], tl.float16)", None),
        ("b[:]", None),
        ("b[:, :, :]", None),
    ],
)
def test_a_call_has_the_type_that_the_language_gives_it(call: str, type_: Type) -> None:
    """A call has the language's type, or none if it is unknown."""
    assert types_of(f"b = {BLOCK}\nc = {call}\ntl.store(x, c)")["c"] == type_


def test_a_block_pointer_leads_to_its_block() -> None:
    """An advanced block pointer has the same block."""
    body = "p = tl.make_block_ptr(x, (n, n), (n, 1), (0, 0), (16, 32), (1, 0))\n"
    body += "q = tl.advance(p, (16, 0))\na = tl.load(q)\ntl.store(x, a)"
    types = types_of(body)
    assert types["q"] == BlockPointer("fp16", (16, 32))
    assert types["a"] == Tensor("fp16", (16, 32))


def test_what_two_ways_disagree_on_is_unknown() -> None:
    """A value with two types, after a branch or in a loop, is unknown."""
    body = "a = 1.0\nb = n\nif n > 1:\n    b = tl.arange(0, 16)\nfor t in range(n):\n"
    body += "    c = a\n    a = tl.load(x)\nd = b\ntl.store(x, a + c + d)"
    types = types_of(body)
    assert types["c"] is None
    assert types["d"] is None


@pytest.mark.parametrize(
    ("spec", "type_"),
    [
        (None, Constant(None)),
        ({"constexpr": 64}, Constant(64)),
        ({"constexpr": {"dtype": "bf16"}}, DTypeValue("bf16")),
        (POINTER, Tensor("*fp16")),
        ({"int": 8}, Tensor("i32")),
        ({"int": 1 << 31}, Tensor("i64")),
        ({"float": 1.0}, Tensor("fp32")),
        ({"bool": True}, Tensor("i1")),
        ([1, 2], None),
    ],
)
def test_an_argument_has_the_type_that_triton_gives_it(spec: object, type_: Type) -> None:
    """Numbers are typed by their size, pointers by their dtype."""
    assert argument_type(spec) == type_


@pytest.mark.parametrize(
    ("first", "right", "dtype"),
    [
        ("fp16", "fp32", "fp32"),
        ("i64", "fp16", "fp16"),
        ("fp16", "bf16", "fp32"),
        ("*fp16", "i32", "*fp16"),
        ("i32", "*fp16", "*fp16"),
    ],
)
def test_arithmetic_promotes(first: str, right: str, dtype: str) -> None:
    """Pointers win, then floats, then the wider; fp16 and bf16 give fp32."""
    assert arithmetic(Tensor(first), Tensor(right)) == Tensor(dtype)


def test_a_literal_does_not_widen_a_dtype_of_its_kind() -> None:
    """A float literal makes an integer fp32; other literals widen nothing."""
    assert arithmetic(Tensor("i8"), Constant(3)) == Tensor("i8")
    assert arithmetic(Constant(0.5), Tensor("bf16")) == Tensor("bf16")
    assert arithmetic(Tensor("i8"), Constant(0.5)) == Tensor("fp32")


@pytest.mark.parametrize(
    ("first", "right"), [(Tensor("i8"), Constant("text")), (Constant(1), Constant(2)), (None, None)]
)
def test_what_is_no_number_has_no_arithmetic(first: Type, right: Type) -> None:
    """Text and pairs of literals have no arithmetic type."""
    with pytest.raises(Unknown):
        arithmetic(first, right)


def test_shapes_are_stretched_from_the_front() -> None:
    """An extent of 1 is stretched; two other extents are ill-typed."""
    assert broadcast((16, 1), (3, 1, 32)) == (3, 16, 32)
    with pytest.raises(IllTyped, match="extents 16 and 32 meet"):
        broadcast((16,), (32,))


def test_equal_extents_are_one_group_only_where_blocks_meet() -> None:
    """Axes that a dot sums over change together; unrelated axes do not."""
    body = "a = tl.zeros([32, 16], tl.float16)\nb = tl.zeros([16, 32], tl.float16)\n"
    body += "tl.store(x, tl.sum(tl.dot(a, b)))"
    extents = infer_kernel(specimen(body, x=POINTER)).extents.values()
    assert len({id(e.group()) for e in extents if e == 16}) == 1
    assert len({id(e.group()) for e in extents if e == 32}) == 2


def test_constants_of_the_module_have_types() -> None:
    """A constant of the module has a type unless a parameter hides it."""
    prelude = "SCALE = tl.constexpr(1.5)\nDTYPE = tl.float16\nBLOCK: tl.constexpr = 32\n\n\n"
    body = "a = tl.load(x + tl.arange(0, BLOCK)) * SCALE\nb = a.to(DTYPE)"
    start = specimen(body, prelude, x={"dtype": "fp32", "align": 16})
    types = infer_types(start)
    plain = filter(None, map(assignment, all_statements(start.function.body)))
    assert {name: types[value] for name, value in plain} == {
        "a": Tensor("fp32", (32,)),
        "b": Tensor("fp16", (32,)),
    }
    hidden = specimen("a = SCALE", prelude, SCALE={"int": 3})
    [assignment_node] = hidden.function.body
    assert infer_types(hidden)[assignment_node.value] == Tensor("i32")  # type: ignore[attr-defined]
    assert not any(extent == 32 for extent in infer_kernel(start).extents.values())
