"""What a kernel that Triton's front end refuses wants of the arguments of the call."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import ast
import textwrap
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.solver.argument_dataflow import DTYPE, GIVE, SHAPE, VALUE
from flacheck.guest.solver.kernel_constraints import Refusal, kernel_constraints
from flacheck.guest.solver.unrolled_loops import unrolled_loop

Wanted = list[tuple[int, str, Any]]


class FrontEndError(Exception):
    """As the front end says where it was: a function's source, and what it was reading of it."""

    def __init__(self, source: str, line: str, message: str | None = None) -> None:
        self.src = textwrap.dedent(source)
        self.node = next(
            node
            for node in ast.walk(ast.parse(self.src))
            if isinstance(node, ast.stmt) and ast.unparse(node).startswith(line)
        )
        self.error_message = message


def refused(error: FrontEndError, arguments: dict[str, Any], given: dict[str, Any]) -> Wanted:
    constraints = kernel_constraints(Refusal("m:kernel", arguments, error), given)
    return [(each.kind, each.name, each.value) for each in constraints]


COUNTING = """
def kernel(x, starts, n, BLOCK):
    row = tl.program_id(0)
    first, last = tl.load(starts + row), tl.load(starts + row + 1)
    for i in range(first, last, BLOCK):
        tl.store(x + i, 1)
"""


def test_what_a_loop_counts_to_is_an_integer() -> None:
    """The tensor that the bounds are loaded from, whatever the host calls it; not the one that the
    loop stores to."""
    x, bounds = torch.zeros(8), torch.zeros(3)
    message = "For loop bounds and step must all be ints, are (fp32, fp32, int32)"
    error = FrontEndError(COUNTING, "for i", message)
    arguments = {"x": x, "starts": bounds.view(3), "n": 8, "BLOCK": 2}
    assert refused(error, arguments, {"x": x, "limits": bounds}) == [
        (DTYPE, "limits", torch.int32),
        (DTYPE, "limits", torch.int64),
    ]


def test_a_tensor_that_the_host_made_anew_is_known_by_its_name() -> None:
    """It is another memory."""
    x, starts = torch.zeros(8), torch.zeros(3)
    error = FrontEndError(COUNTING, "for i", "For loop bounds and step must all be ints")
    arguments = {"x": x, "starts": starts.double(), "n": 8, "BLOCK": 2}
    wanted = refused(error, arguments, {"x": x, "starts": starts})
    assert {name for _, name, _ in wanted} == {"starts"}


def test_a_number_that_is_a_fraction() -> None:
    """It is to be a whole one."""
    x, scale = torch.zeros(8), 2.5
    error = FrontEndError(
        "def kernel(x, n):\n    tl.store(x + 1 % n, 1)\n",
        "tl.store",
        "invalid operands of type int32 and fp32",
    )
    wanted = refused(error, {"x": x.int(), "n": scale}, {"x": x, "stride": scale})
    assert wanted == [(VALUE, "stride", 2)]


HELPED = """
def kernel(x, bias, BIAS_STRIDES):
    row, column = tl.program_id(0), tl.program_id(1)
    tl.store(x, tl.load(bias + offset((row, column), BIAS_STRIDES)))
"""
HELPER = """
def offset(indices, strides):
    tl.static_assert(len(indices) == len(strides))
    return indices[0] * strides[0]
"""


def test_strides_are_as_many_as_the_indices_beside_them() -> None:
    """A helper's condition is followed to where it was called, and the strides to their tensor."""
    x, bias = torch.zeros(8, 4, 2), torch.zeros(4)
    outer = FrontEndError(HELPED, "tl.store")
    outer.__cause__ = FrontEndError(HELPER, "tl.static_assert", "must have equal length")
    arguments = {"x": x, "bias": bias, "BIAS_STRIDES": bias.stride()}
    assert refused(outer, arguments, {"x": x, "bias": bias}) == [
        (SHAPE, "bias", (4, 2)),
        (SHAPE, "bias", (2, 4)),
    ]


def test_two_ways_return_one_dtype() -> None:
    """The width of what was loaded is changed, both ways are looked at."""
    source = """
    def kernel(x, indices, lengths):
        if tl.program_id(0) == 0:
            return tl.load(indices), 0
        return tl.load(lengths), 0
    """
    indices, lengths = torch.zeros(3, dtype=torch.int32), torch.zeros(3, dtype=torch.int64)
    error = FrontEndError(source, "return (tl.load(lengths)", "Inconsistent return types")
    given = {"indices": indices, "lengths": lengths}
    assert sorted(refused(error, given, given), key=str) == [
        (DTYPE, "indices", torch.int64),
        (DTYPE, "lengths", torch.int32),
    ]


def test_functions_of_mathematics_take_single_precision() -> None:
    """What they are given was loaded from there; what was cast before is left alone."""
    source = """
    def kernel(x, gate, beta):
        value = tl.exp2(tl.load(gate)) * tl.load(beta).to(tl.float32)
        tl.store(x, value)
    """
    gate, beta = torch.zeros(3).bfloat16(), torch.ones(3).bfloat16()
    error = FrontEndError(source, "value", "Expected dtype ['fp32', 'fp64'] but got bf16")
    given = {"gate": gate, "beta": beta}
    assert refused(error, given, given) == [(DTYPE, "gate", torch.float32)]


def test_operands_share_a_dtype() -> None:
    """Either is given the other's, or both single precision."""
    source = "def kernel(a, b):\n    c = tl.dot(tl.load(a), tl.load(b))\n"
    given = {"a": torch.zeros(2).half(), "b": torch.zeros(2).bfloat16()}
    error = FrontEndError(source, "c =", "Both operands must be same dtype. Got fp16 and bf16")
    assert refused(error, given, given) == [
        (DTYPE, "a", torch.bfloat16),
        (DTYPE, "a", torch.float32),
        (DTYPE, "b", torch.float16),
        (DTYPE, "b", torch.float32),
    ]


def test_an_operand_beside_small_integers_is_one() -> None:
    """As the other is."""
    source = "def kernel(a, b):\n    c = tl.dot(tl.load(a), tl.load(b))\n"
    given = {"a": torch.zeros(2, dtype=torch.int8), "b": torch.zeros(2).bfloat16()}
    error = FrontEndError(source, "c =", "Both operands must be same dtype. Got int8 and bf16")
    assert refused(error, given, given)[0] == (DTYPE, "b", torch.int8)


def test_what_is_loaded_from_is_given() -> None:
    """An argument that was left out, by its name."""
    error = FrontEndError(
        "def kernel(x, gate):\n    tl.store(x, tl.load(gate))\n",
        "tl.store",
        "'NoneType' object has no attribute 'type'",
    )
    x = torch.zeros(3).int()
    wanted = refused(error, {"x": x, "gate": None}, {"x": x, "beta": None, "gate": None})
    assert wanted == [(GIVE, "gate", None)]


def test_what_is_summed_up_in_integers() -> None:
    """The operands are small integers; blocks lead to their tensors, not to their extents."""
    source = """
    def kernel(a, b, M, K):
        block = tl.make_block_ptr(base=a, shape=(M, K))
        total = tl.zeros((16, 16), dtype=tl.int32)
        for i in range(K):
            total += tl.dot(tl.load(block), b.load([i, 0]))
            block = tl.advance(block, (0, K))
    """
    a, b = torch.zeros(4, 4), torch.zeros(4, 5)
    message = (
        "Loop-carried variable total has initial type <['16'], int32> "
        "but is re-assigned to <['16'], fp32>"
    )
    error = FrontEndError(source, "for i", message)
    given = {"a": a, "b": b}
    wanted = refused(error, {**given, "M": 3.0, "K": 4.0}, given)
    assert wanted == [
        (DTYPE, "a", torch.int8),
        (DTYPE, "a", torch.int32),
        (DTYPE, "b", torch.int8),
        (DTYPE, "b", torch.int32),
    ]


def test_an_error_that_tells_nothing() -> None:
    """No line, no demand."""
    error = FrontEndError("def kernel(x):\n    pass\n", "pass", "no idea")
    assert refused(error, {"x": torch.zeros(1)}, {"x": torch.zeros(1)}) == []


@pytest.mark.parametrize(
    "message",
    [
        "Loop-carried variable at has initial type pointer<bf16> but is re-assigned to "
        "pointer<fp32> in loop! Please make sure that the type stays consistent.",
        "Mismatched type for at between then block (pointer<bf16>) and else block (pointer<fp32>)",
    ],
)
def test_pointers_that_a_variable_is_in_turn_have_one_dtype(message: str) -> None:
    """The variable leads to what it is given before the loop and in it; not what is stored."""
    source = """
    def kernel(first, out, x, T):
        at = first
        for t in range(T):
            tl.store(out + t, tl.load(at) + tl.load(x))
            at = out + t
    """
    first, x = torch.zeros(4).bfloat16(), torch.zeros(4).bfloat16()
    arguments = {"first": first, "out": torch.zeros(4), "x": x, "T": 4}
    error = FrontEndError(source, "for t", message)
    assert refused(error, arguments, {"h0": first, "x": x}) == [(DTYPE, "h0", torch.float32)]


def test_offsets_are_sums_of_an_argument_of_that_length() -> None:
    """Where no argument has a similar name."""
    x, counts = torch.zeros(8, 2), torch.zeros(3)
    error = FrontEndError(COUNTING, "for i", "For loop bounds and step must all be ints")
    arguments = {"x": x, "starts": counts.cumsum(0), "n": 8, "BLOCK": 2}
    wanted = refused(error, arguments, {"x": x, "counts": counts})
    assert {name for _, name, _ in wanted} == {"counts"}


def test_a_variable_that_a_branch_makes_wider() -> None:
    """The lengths are 64 bits wide, and the branch divides them."""
    source = """
    def kernel(x, lengths, per_block, BLOCK):
        blocks = per_block
        if BLOCK > 1:
            blocks = min(per_block, tl.cdiv(tl.load(lengths), BLOCK))
        tl.store(x, blocks)
    """
    x, lengths = torch.zeros(8), torch.zeros(3, dtype=torch.int64)
    message = (
        "initial value for `blocks` is of type int32[], but the else block redefines it as int64[]"
    )
    error = FrontEndError(source, "if BLOCK", message)
    arguments = {"x": x, "lengths": lengths, "per_block": 8, "BLOCK": 16}
    assert refused(error, arguments, {"x": x, "seq_lens": lengths}) == [
        (DTYPE, "seq_lens", torch.int32)
    ]


@pytest.mark.parametrize(
    "message",
    [
        "initial value for `place` is of type int32[], but the then block redefines it as fp32[]",
        "Mismatched type for place between then block (fp32) and else block (int32)",
        "Mismatched type for place between then block (int32) and else block (bf16)",
    ],
)
def test_an_integer_that_a_branch_would_make_a_float(message: str) -> None:
    """What is subtracted from it was loaded."""
    source = """
    def kernel(x, bins, row):
        place = row
        if row > 0:
            place -= tl.load(bins + row)
        tl.store(x + place, 0)
    """
    x, bins = torch.zeros(8), torch.zeros(4)
    error = FrontEndError(source, "if row", message)
    assert refused(error, {"x": x, "bins": bins, "row": 1}, {"x": x, "bins": bins}) == [
        (DTYPE, "bins", torch.int32),
        (DTYPE, "bins", torch.int64),
    ]


def test_a_tile_that_is_too_large() -> None:
    """Any number or dimension that is a constant of the launch may be smaller."""
    x, rank = torch.zeros(512, 4), 64
    error = FrontEndError(
        "def kernel(x, M, R):\n    y = tl.zeros((M, R), tl.float32)\n",
        "y =",
        "numel (4194304) exceeds triton maximum tensor numel (1048576)",
    )
    assert refused(error, {"x": x, "M": 512, "R": 64}, {"x": x, "rank": rank}) == [
        (SHAPE, "x", (16, 4)),
        (VALUE, "rank", 16),
    ]


def test_a_tile_that_is_empty() -> None:
    """The width of a tensor is less than what it is divided by."""
    x, scales = torch.zeros(64, 2), torch.zeros(64, 64)
    error = FrontEndError(
        "def kernel(x, groups):\n    columns = tl.arange(0, groups)\n",
        "columns =",
        "arange's end argument must be greater than the start argument",
    )
    assert refused(error, {"x": x, "groups": 0}, {"x": x, "scales": scales, "group": 64}) == [
        (SHAPE, "x", (64, 256))
    ]


def test_an_address_in_arithmetic_is_to_be_a_number() -> None:
    """The tensor was made up for a parameter that the kernel multiplies with."""
    x, scale = torch.zeros(8), torch.zeros(8)
    error = FrontEndError(
        "def kernel(x, scale):\n    y = tl.load(x) * scale\n    tl.store(x, y)\n",
        "y =",
        "invalid operands of type pointer<fp32> and fp32",
    )
    arguments = {"x": x, "scale": scale}
    assert (VALUE, "factor", 1.0) in refused(error, arguments, {"x": x, "factor": scale})


POINTS = """
def kernel(points, n, D: tl.constexpr, BLOCK: tl.constexpr):
    for block in range(0, n, BLOCK):
        for d in tl.static_range(D):
            tl.store(points + block * D + d, 1)
        for d in tl.static_range(0, BLOCK, 64):
            tl.store(points + d, 1)
"""


def expression_error(source: str, text: str, message: str) -> FrontEndError:
    """An error at an expression within a statement."""
    error = FrontEndError(source, "def")
    error.error_message = message
    for node in ast.walk(ast.parse(error.src)):
        if isinstance(node, ast.expr) and ast.unparse(node) == text:
            error.node = node  # type: ignore[assignment]
    return error


OFFSETS = """
def kernel(x, where, out, stride):
    row = first(where, 0)
    offset = row * stride
    tl.store(out, tl.load(x + offset))
"""


def test_an_offset_is_an_integer_before_its_address_is_a_number() -> None:
    """Also where another function loads it."""
    x, where, out = torch.zeros(8), torch.zeros(3), torch.zeros(8)
    message = "invalid operands of type pointer<fp32> and triton.language.float32"
    error = expression_error(OFFSETS, "x + offset", message)
    arguments = {"x": x, "where": where, "out": out, "stride": 2}
    assert refused(error, arguments, {"x": x, "where": where, "out": out}) == [
        (DTYPE, "where", torch.int32),
        (DTYPE, "where", torch.int64),
        (VALUE, "x", 1.0),
    ]


def test_an_address_in_memory_is_a_large_integer() -> None:
    """The tensor that it is loaded from has 64-bit integers."""
    source = "def kernel(x, tables):\n    y = tl.load(tables).to(tl.pointer_type(tl.uint8))\n"
    tables = torch.zeros(3)
    cast = "tl.load(tables).to(tl.pointer_type(tl.uint8))"
    error = expression_error(source, cast, "cannot cast fp32[constexpr[4]] to pointer<uint8>")
    arguments = {"x": torch.zeros(2), "tables": tables}
    assert refused(error, arguments, {"tables": tables}) == [(DTYPE, "tables", torch.int64)]


ASSERTING = """
def kernel(x, n, m):
    tl.static_assert(n == 4)
    tl.static_assert(m > 4)
"""


def test_a_constant_is_the_size_that_a_kernel_asserts() -> None:
    """A number of the call that equals it becomes that size, and so does a tensor's extent."""
    x, y = torch.zeros(2, 8, 8), torch.zeros(3)
    error = expression_error(ASSERTING, "tl.static_assert(n == 4)", "")
    arguments = {"x": x, "n": 8, "m": 2}
    given = {"x": x, "y": y, "count": 8, "other": 3}
    assert refused(error, arguments, given) == [(VALUE, "count", 4), (SHAPE, "x", (2, 4, 4))]
    assert refused(error, {**arguments, "n": None}, given) == []
    error = expression_error(ASSERTING, "tl.static_assert(m > 4)", "")
    assert refused(error, arguments, given) == []


def test_a_loop_that_is_unrolled_too_often_wants_a_smaller_size() -> None:
    """Of the tensors and numbers that have it; a loop with a step is not unrolled so often."""
    points = torch.zeros(2, 256)
    arguments = {"points": points, "n": 2, "D": 256, "BLOCK": 512}
    loop = unrolled_loop(POINTS, arguments)
    assert loop is not None
    given = {"points": points, "width": 256, "n": 2}
    constraints = kernel_constraints(Refusal("m:kernel", arguments, loop), given)
    assert [(each.kind, each.name, each.value) for each in constraints] == [
        (SHAPE, "points", (2, 4)),
        (VALUE, "width", 4),
    ]
    assert unrolled_loop(POINTS, {**arguments, "D": 64}) is None
