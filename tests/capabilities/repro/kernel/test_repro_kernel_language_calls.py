"""The types of calls of the language, and what it refuses."""

from __future__ import annotations

import pytest

from flacheck.capabilities.repro.kernel.block_types import (
    BlockPointer,
    Constant,
    DTypeValue,
    IllTyped,
    Several,
    Tensor,
    Type,
    Unknown,
)
from flacheck.capabilities.repro.kernel.language_calls import SMALLEST_DOT, result_type

BLOCK = Tensor("fp16", (16, 32))


def numbers(*values: int) -> Several:
    return Several(tuple(map(Constant, values)))


@pytest.mark.parametrize(
    ("name", "positional", "keywords", "expected"),
    [
        (".to", [BLOCK, DTypeValue("fp32")], {}, Tensor("fp32", (16, 32))),
        ("tl.cast", [Constant(3), DTypeValue("i64")], {}, Tensor("i64")),
        ("tl.sum", [BLOCK, Constant(1)], {}, Tensor("fp16", (16,))),
        (".sum", [BLOCK], {"axis": Constant(-1)}, Tensor("fp16", (16,))),
        ("tl.sum", [Tensor("i1", (16,)), Constant(0)], {}, Tensor("i32")),
        ("tl.sum", [BLOCK, Constant(0), Constant(True)], {}, Tensor("fp16", (1, 32))),
        ("tl.max", [BLOCK, Constant(0)], {"keep_dims": Constant(True)}, Tensor("fp32", (1, 32))),
        ("tl.min", [Tensor("u8", (16,)), Constant(0)], {}, Tensor("i32")),
        ("tl.max", [Tensor("i64", (16,)), Constant(0)], {}, Tensor("i64")),
        ("tl.argmin", [BLOCK, Constant(0)], {}, Tensor("i32", (32,))),
        ("tl.expand_dims", [BLOCK, Constant(-1)], {}, Tensor("fp16", (16, 32, 1))),
        ("tl.permute", [BLOCK, Constant(1), Constant(0)], {}, Tensor("fp16", (32, 16))),
        (".trans", [BLOCK], {}, Tensor("fp16", (32, 16))),
        ("tl.reshape", [BLOCK, numbers(512)], {}, Tensor("fp16", (512,))),
        ("tl.zeros", [numbers(), DTypeValue("i32")], {}, Tensor("i32")),
        ("max", [Tensor("i32"), Constant(1)], {}, Tensor("i32")),
        ("tl.math.exp", [BLOCK], {}, BLOCK),
        ("tl.advance", [BlockPointer("fp16", (16, 32))], {}, BlockPointer("fp16", (16, 32))),
    ],
)
def test_a_call_has_a_type(
    name: str, positional: list[Type], keywords: dict[str, Type], expected: Type
) -> None:
    """As a function or a method, by position or by name."""
    assert result_type(name, positional, keywords) == expected


def test_what_is_no_parameter_of_a_rule_decides_nothing() -> None:
    """`mask` and `other` leave the type of a load alone."""
    pointer = BlockPointer("bf16", (16, 32))
    keywords: dict[str, Type] = {"mask": BLOCK, "other": Constant(0.0)}
    assert result_type("tl.load", [pointer], keywords) == Tensor("bf16", (16, 32))


@pytest.mark.parametrize(
    ("left", "right", "dtype"),
    [
        (BLOCK, Tensor("fp16", (32, 16)), "fp32"),
        (Tensor("i8", (16, 32)), Tensor("i8", (32, 16)), "i32"),
        (Tensor("fp64", (16, 32)), Tensor("fp64", (32, 16)), "fp64"),
    ],
)
def test_a_dot_sums_in_a_wider_type(left: Tensor, right: Tensor, dtype: str) -> None:
    """Unless it is told in which."""
    assert result_type("tl.dot", [left, right], {}) == Tensor(dtype, (16, 16))
    told: dict[str, Type] = {"out_dtype": DTypeValue("fp16")}
    assert result_type("tl.dot", [left, right], told) == Tensor("fp16", (16, 16))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tl.dot", [BLOCK, BLOCK]),
        ("tl.dot", [BLOCK, Tensor("fp16", (32, SMALLEST_DOT // 2))]),
        ("tl.store", [BlockPointer("fp16", (16,)), BLOCK]),
    ],
)
def test_what_the_language_refuses_is_ill_typed(name: str, arguments: list[Type]) -> None:
    """No compiler is asked."""
    with pytest.raises(IllTyped):
        result_type(name, arguments, {})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tl.unheard_of", [BLOCK]),
        ("tl.dot", [Tensor("fp16", (16,)), BLOCK]),
        ("tl.permute", [BLOCK, numbers(0)]),
        ("tl.exp", []),
        ("tl.store", [Constant(1), BLOCK]),
        ("tl.sum", [Tensor("fp16"), Constant(0)]),
        ("tl.max", [BLOCK, Constant(0), Constant(True)]),
    ],
)
def test_what_nobody_knows_is_unknown(name: str, arguments: list[Type]) -> None:
    """A compiler decides then."""
    with pytest.raises(Unknown):
        result_type(name, arguments, {})
