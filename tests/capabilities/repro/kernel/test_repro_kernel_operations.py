"""Operation types of kernels, and operations that a reduction must not add."""

from __future__ import annotations

import pytest

from flacheck.capabilities.repro.kernel.operation_types import operation_types, strangers
from flacheck.capabilities.repro.kernel.specimen import Specimen
from tests.made_specimens import POINTER, specimen

BLOCK = "tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]"


def dot(dtype: str, more: str = "") -> Specimen:
    body = f"a = tl.load(x + {BLOCK})\nb = tl.dot(a, a{more})\ntl.store(y + {BLOCK}, b)"
    return specimen(body, x={"dtype": dtype, "align": 16}, y={"dtype": "fp32", "align": 16})


@pytest.mark.parametrize(
    ("dtype", "more", "description"),
    [
        ("bf16", "", "tl.dot(bf16)"),
        ("fp32", "", "tl.dot(fp32, tf32)"),
        ("fp32", ", input_precision='ieee'", "tl.dot(fp32, ieee)"),
        ("fp32", ", allow_tf32=False", "tl.dot(fp32, ieee)"),
    ],
)
def test_a_dot_has_the_types_of_its_operands_and_a_precision(
    dtype: str, more: str, description: str
) -> None:
    """Only fp32 is rounded in a dot, so only fp32 has a precision."""
    assert [str(one) for one in operation_types(dot(dtype, more))] == [description]


def test_a_dot_of_another_type_or_precision_is_another_operation() -> None:
    """A dot of another dtype or precision is an added operation."""
    original = operation_types(dot("bf16"))
    assert strangers(operation_types(dot("bf16")), original) == []
    [strange] = strangers(operation_types(dot("fp32")), original)
    assert str(strange) == "tl.dot(fp32, tf32)"
    exact = operation_types(dot("fp32", ", input_precision='ieee'"))
    assert len(strangers(exact, operation_types(dot("fp32")))) == 1


def test_what_is_loaded_around_the_operation_may_change() -> None:
    """A reduction may load the operands that the original computes."""
    assert strangers(operation_types(dot("bf16")), operation_types(dot("bf16"))) == []
    with_casts = specimen(
        f"a = tl.load(x + {BLOCK})\nb = tl.dot(a.to(tl.bfloat16), a.to(tl.bfloat16))\n"
        f"tl.store(y + {BLOCK}, b)",
        x={"dtype": "fp32", "align": 16},
        y={"dtype": "fp32", "align": 16},
    )
    assert strangers(operation_types(dot("bf16")), operation_types(with_casts)) == []


def test_an_operation_on_unknown_types_covers_every_type() -> None:
    """If the original's types are unknown, every operation is accepted."""
    unknown = specimen("b = tl.dot(f(x), f(x))\ntl.store(x, b)", x=POINTER)
    assert strangers(operation_types(dot("fp32")), operation_types(unknown)) == []


def test_arithmetic_counts_where_there_is_nothing_heavier() -> None:
    """A kernel without heavier operations is known by its arithmetic, or by its accesses."""
    sum_body = "a = tl.load(x + tl.arange(0, 16))\ntl.store(x + tl.arange(0, 16), a + a)"
    assert {str(one) for one in operation_types(specimen(sum_body, x=POINTER))} == {"Add(fp16)"}
    copy_body = "tl.store(x + tl.arange(0, 16), tl.load(x + tl.arange(0, 16)))"
    assert {str(one) for one in operation_types(specimen(copy_body, x=POINTER))} == {"access(fp16)"}


def test_assembly_and_conversions_are_known_by_what_they_make_too() -> None:
    """Assembly and conversions have operand and result dtypes."""
    body = (
        "a = tl.load(x + tl.arange(0, 16))\n"
        "b = tl.inline_asm_elementwise('ex2 $0, $1;', '=h,h', [a], dtype=tl.bfloat16, "
        "is_pure=True, pack=1)\n"
        "tl.store(x + tl.arange(0, 16), b.to(tl.float32))"
    )
    descriptions = {str(one) for one in operation_types(specimen(body, x=POINTER))}
    assert descriptions == {".to(bf16, fp32)", "tl.inline_asm_elementwise(bf16, fp16)"}


def test_what_is_known_of_an_operation_binds_although_the_rest_is_unknown() -> None:
    """A dot with one unknown operand still excludes dots of another dtype."""
    half = specimen("b = tl.dot(tl.load(x), f(x))\ntl.store(x, b)", x={"dtype": "fp16"})
    assert strangers(operation_types(dot("fp16")), operation_types(half)) == []
    [strange] = strangers(operation_types(dot("fp32")), operation_types(half))
    assert str(strange) == "tl.dot(fp32, tf32)"


def test_assembly_on_an_address_is_not_assembly_on_a_number() -> None:
    """Assembly on a pointer and on a loaded number are different operations."""
    asm = "tl.inline_asm_elementwise('i $0, $1;', '=r,l', [{}], tl.int32, False, 1)"
    load = "a = tl.load(x + tl.arange(0, 16))\n"
    store = "\ntl.store(x + tl.arange(0, 16), b)"
    i32 = {"dtype": "i32", "align": 16}
    on_address = specimen(f"{load}b = {asm.format('x + tl.arange(0, 16)')}{store}", x=i32)
    on_number = specimen(f"{load}b = {asm.format('a')}{store}", x=i32)
    original = operation_types(on_address)
    assert [str(one) for one in original] == ["tl.inline_asm_elementwise(*i32, i32)"]
    assert strangers(operation_types(on_address), original) == []
    [strange] = strangers(
        operation_types(specimen(f"{load}b = {asm.format('a')}{store}", x=POINTER)), original
    )
    assert "fp16" in str(strange)
    assert strangers(original, operation_types(on_number)) == list(original)


def scaled_dot(scale: str, format: str = "e4m3") -> Specimen:
    fp8, u8 = {"dtype": "fp8e4nv", "align": 16}, {"dtype": "u8", "align": 16}
    body = f"a = tl.load(x + {BLOCK})\ns = tl.load(y + tl.arange(0, 16)[:, None])\n"
    body += f"b = tl.dot_scaled(a, {scale}, '{format}', a, {scale}, '{format}')\n"
    body += f"tl.store(z + {BLOCK}, b)"
    return specimen(body, x=fp8, y=u8, z={"dtype": "fp32", "align": 16})


def test_scales_and_formats_are_types_of_a_scaled_dot() -> None:
    """A scaled dot has the types of its scales and formats."""
    original = operation_types(scaled_dot("s"))
    assert [str(one) for one in original] == ["tl.dot_scaled(e4m3, fp8e4nv, u8 scale)"]
    for other in (scaled_dot("None"), scaled_dot("s.to(tl.int32)"), scaled_dot("s", "e5m2")):
        [strange] = strangers(operation_types(other), original)
        assert strange.operation == "tl.dot_scaled"
