"""The passes: their proposals, and the reductions that they reach."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flacheck.capabilities.repro.kernel.candidates import cost, is_valid
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes import FIRST, PASSES, SLICES
from flacheck.capabilities.repro.passes.aliases import aliases, single_assignment
from flacheck.capabilities.repro.passes.blocks import dimensions, pointers, smallest
from flacheck.capabilities.repro.passes.expressions import expressions, sinks
from flacheck.capabilities.repro.passes.launch import dtypes, launch, options, parameters
from flacheck.capabilities.repro.passes.partial_evaluation import evaluate_constants, literal_of
from flacheck.capabilities.repro.passes.readable_form import reading
from flacheck.capabilities.repro.passes.search import (
    Pass,
    name_of,
)
from flacheck.capabilities.repro.passes.statements import closure, control_flow, statements
from flacheck.capabilities.repro.reducer import polish, reduce
from tests.made_specimens import POINTER, FakeOracle, calls, chain, reduce_by, specimen


def proposals_of(one: Pass, start: Specimen) -> list[Specimen]:
    """Return every proposal of a pass if none is accepted."""
    search = one(start)
    candidates = []
    candidate = next(search, None)
    while candidate is not None:
        assert isinstance(candidate, Specimen)
        candidates.append(candidate)
        try:
            candidate = search.send(False)
        except StopIteration:
            candidate = None
    return candidates


def body_of(one: Specimen) -> list[str]:
    return [ast.unparse(statement) for statement in one.function.body]


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(st.sampled_from(["tl.dot", "tl.exp", "tl.trans", "tl.load"]), st.integers(0, 2))
def test_every_accepted_step_is_valid_smaller_and_fails(operation: str, least: int) -> None:
    """Each step is smaller, valid and satisfies the oracle."""

    def holds(candidate: Specimen) -> bool:
        assert is_valid(candidate)
        return calls(candidate, operation) >= least

    steps = [
        step.best for step in reduce(evaluate_constants(chain()), (), PASSES, FakeOracle(holds))
    ]
    costs = [cost(step) for step in steps]
    assert costs == sorted(costs, reverse=True)
    assert all(holds(step) for step in steps)


@pytest.mark.parametrize(
    "one", sorted({*FIRST, *SLICES, *PASSES, reading}, key=name_of), ids=name_of
)
def test_no_pass_changes_the_tree_that_it_reads(one: Pass) -> None:
    """A pass leaves the tree of its specimen unchanged."""
    start = evaluate_constants(chain())
    before = ast.dump(start.tree)
    search = one(start)
    for _ in range(5):
        if next(search, None) is None:
            break
    assert ast.dump(start.tree) == before


def test_extents_are_made_small_at_once() -> None:
    """All extents shrink in one candidate."""
    large = specimen(
        "a = tl.load(x + tl.arange(0, 64))\ntl.store(x + tl.arange(0, 64), a)", x=POINTER
    )
    [small] = smallest(large)
    assert isinstance(small, Specimen)
    assert "tl.arange(0, 16)" in small.source
    assert "64" not in small.source
    assert list(smallest(small)) == []


def test_a_pass_is_called_like_its_function() -> None:
    """A pass has its function's name in words."""
    assert [name_of(one) for one in FIRST] == ["partial evaluation", "smallest", "slices"]


# Partial evaluation


def test_constants_go_into_the_kernel() -> None:
    """Partial evaluation removes constexpr parameters and decides branches."""
    after = evaluate_constants(chain())
    assert list(after.args) == ["x", "y", "T"]
    assert "tl.arange(0, 64))[:, None] * 128" in after.source
    assert "a.dtype" not in after.source


def test_helpers_are_inlined_unless_the_failure_needs_the_call() -> None:
    """An inlined helper's variables do not clash with the kernel's."""
    helper = "@triton.jit\ndef scaled(a, by):\n    b = a * by\n    return b + 1\n\n\n"
    start = specimen("b = tl.load(x)\nc = scaled(b, 2)\ntl.store(x, b + c)", helper, x=POINTER)
    assert "def scaled" not in evaluate_constants(start).source
    assert "b_2 = b * 2" in evaluate_constants(start).source
    assert "def scaled" in evaluate_constants(start, inline=False).source


def test_statements_are_made_plain() -> None:
    """Tuple assignments are split and augmented ones are spelt out."""
    body = "a, b = tl.load(x), 2\na, c = b + a, a\nd: tl.constexpr = 4\na += d\ntl.store(x, a + c)"
    assert body_of(evaluate_constants(specimen(body, x=POINTER))) == [
        "a = tl.load(x)",
        "a, c = (2 + a, a)",
        "a = a + 4",
        "tl.store(x, a + c)",
    ]


def test_a_constant_that_the_kernel_binds_again_is_a_variable() -> None:
    """A reassigned constexpr becomes a variable."""
    body = "for t in range(4):\n    N = N * 2\ntl.store(x, N)"
    after = evaluate_constants(specimen(body, x=POINTER, N={"constexpr": 3}))
    assert body_of(after)[0] == "N = 3"
    assert list(after.args) == ["x"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (None, "None"),
        ({"constexpr": -1}, "-1"),
        ({"constexpr": {"dtype": "bf16"}}, "tl.bfloat16"),
        ({"constexpr": {"function": "helper"}}, "helper"),
        ({"constexpr": {"tuple": [1, {"dtype": "fp32"}]}}, "(1, tl.float32)"),
        ({"constexpr": {"tuple": [1, {"other": 1}]}}, None),
        ({"int": 3}, None),
        (POINTER, None),
    ],
)
def test_a_constant_argument_has_a_literal(spec: object, text: str | None) -> None:
    """Constexpr arguments have a literal, runtime arguments do not."""
    value = literal_of(spec)
    assert (value and ast.unparse(value)) == text


# Statements and control flow


@settings(max_examples=15, deadline=None)
@given(st.sets(st.integers(0, 11), min_size=1, max_size=4))
def test_deletion_finds_exactly_what_is_needed(indices: set[int]) -> None:
    """Delta debugging ends with the statements that the failure needs."""
    start = specimen("\n".join(f"tl.store(x + {at}, {at})" for at in range(12)), x=POINTER)

    def holds(candidate: Specimen) -> bool:
        return {f"tl.store(x + {at}, {at})" for at in indices} <= set(body_of(candidate))

    assert reduce_by(start, holds, statements).lines == len(indices)


def test_deleting_a_value_deletes_what_needs_it() -> None:
    """Deleting a value deletes every statement that reads it."""
    body = ast.parse("a = f()\nb = a\nc = g()\nd = b + c\ntl.store(x, c)").body
    assert closure(body, {0}) == {0, 1, 3}


def test_a_loop_becomes_one_turn_of_it() -> None:
    """A loop is replaced by one iteration, or shortened if the failure needs it."""
    start = evaluate_constants(chain())
    assert "for" not in reduce_by(start, lambda s: calls(s, "tl.dot") == 1, control_flow).source
    with_loop = reduce_by(start, lambda s: "for t in range" in s.source, control_flow)
    assert "for t in range(4)" in with_loop.source


def test_a_branch_becomes_one_of_its_sides() -> None:
    """Each side of a branch is proposed, the first one first."""
    body = "if n > 1:\n    tl.store(x, 1)\nelse:\n    tl.store(x, 2)"
    candidates = proposals_of(control_flow, specimen(body, x=POINTER, n={"int": 8}))
    assert [body_of(one) for one in candidates] == [["tl.store(x, 1)"], ["tl.store(x, 2)"]]


# Expressions


def test_names_are_bound_once_in_a_straight_kernel() -> None:
    """A reassigned variable gets a new name, and copies disappear."""
    start = specimen("a = tl.load(x)\na = a + 1\nb = a\ntl.store(x, b)", x=POINTER)
    after = single_assignment(start)
    assert body_of(after) == ["a = tl.load(x)", "a_2 = a + 1", "tl.store(x, a_2)"]


def test_what_is_read_once_is_written_where_it_is_read() -> None:
    """Values with one reader are inlined, all at once and then one by one."""
    start = specimen("a = tl.load(x)\nb = a + a\nc = b * 2\ntl.store(x, c)", x=POINTER)
    assert [body_of(one) for one in proposals_of(aliases, start)] == [
        ["a = tl.load(x)", "tl.store(x, (a + a) * 2)"],
        ["a = tl.load(x)", "c = (a + a) * 2", "tl.store(x, c)"],
        ["a = tl.load(x)", "b = a + a", "tl.store(x, b * 2)"],
    ]


def test_an_expression_becomes_one_of_its_type() -> None:
    """An expression is replaced by a variable, a load, or 0."""
    start = specimen("a = tl.load(x)\ntl.store(x, tl.abs(a))", x=POINTER)
    bodies = [body_of(one) for one in proposals_of(expressions, start)]
    assert ["a = tl.load(x)", "tl.store(x, a)"] in bodies
    assert ["tl.store(x, tl.load(x))"] in bodies


def test_calls_without_what_they_must_have_are_not_proposed() -> None:
    """Calls with a missing operand are not proposed."""
    start = specimen("a = tl.load(x)\ntl.store(x, tl.maximum(a, a))", x=POINTER)
    sources = [one.source for one in proposals_of(expressions, start)]
    assert sources
    assert not [s for s in sources if "tl.maximum(a)" in s or "tl.store(x)" in s]


def test_another_variable_is_stored() -> None:
    """A store of a variable that requires less is proposed."""
    start = specimen("a = tl.load(x)\nb = tl.abs(a)\ntl.store(x, b)", x=POINTER)
    assert ["a = tl.load(x)", "tl.store(x, a)"] in [
        body_of(one) for one in proposals_of(sinks, start)
    ]


def test_accesses_become_plain() -> None:
    """Masked loads and those of other addresses become loads of `pointer + arange`."""
    after = reduce_by(evaluate_constants(chain()), lambda s: calls(s, "tl.load") == 1, pointers)
    plain = "tl.load(x + tl.arange(0, 64)[:, None] * 128 + tl.arange(0, 128)[None, :])"
    assert "mask" not in after.source
    assert plain in after.source


def test_extents_shrink_with_their_strides() -> None:
    """Extents shrink to a dot's minimum, with their strides."""
    body = "a = tl.load(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :])\n"
    body += "tl.store(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tl.dot(a, a))"
    after = reduce_by(specimen(body, x=POINTER), lambda s: calls(s, "tl.dot") == 1, dimensions)
    assert "x + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]" in after.source
    assert "64" not in after.source


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (64, 32), (32, 128)])
def test_an_address_stays_plain_when_its_extents_shrink(rows: int, columns: int) -> None:
    """The first candidate has the smallest extents and plain addresses."""
    address = f"x + tl.arange(0, {rows})[:, None] * {columns} + tl.arange(0, {columns})[None, :]"
    start = specimen(f"tl.store({address}, tl.load({address}))", x=POINTER)
    first, *_ = proposals_of(dimensions, start)
    plain = "x + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]"
    assert first.source.count(plain) == 2


def test_a_descriptor_keeps_its_place_and_its_shape() -> None:
    """A descriptor stays outside loops and keeps its extents."""
    body = "d = tl.make_tensor_descriptor(x, [M, M], [M, 1], [16, 16])\n"
    body += "for i in range(4):\n    tl.store(y + tl.arange(0, 16), tl.sum(d.load([i, 0]), 1))"
    start = specimen(body, x=POINTER, y=POINTER, M={"int": 64})
    candidates = [*proposals_of(aliases, start), *proposals_of(expressions, start)]
    candidates += proposals_of(parameters, start)
    texts = [one.source for one in candidates if "tl.make_tensor_descriptor" in one.source]
    assert any("[64, 64], [64, 1]" in text for text in texts)
    for text in texts:
        assert text.index("tl.make_tensor_descriptor") < text.index("for i in")
        assert "[0, " not in text.partition("for i in")[0]
        assert "[1, " not in text


# The launch


def test_an_option_goes_or_becomes_small() -> None:
    """Options are dropped or made smaller."""
    start = specimen("tl.store(x, 1)", options={"num_warps": 8, "num_stages": 3}, x=POINTER)
    assert [one.options for one in proposals_of(options, start)] == [
        {"num_stages": 3},
        {"num_warps": 1, "num_stages": 3},
        {"num_warps": 2, "num_stages": 3},
        {"num_warps": 8},
        {"num_warps": 8, "num_stages": 1},
        {"num_warps": 8, "num_stages": 2},
    ]


def test_constants_shrink_together_then_alone() -> None:
    """Equal constants shrink together first, then one by one."""
    args = {"M": {"constexpr": 4}, "N": {"constexpr": 4}, "F": {"constexpr": True}}
    start = specimen("tl.store(x, M + N + F)", x=POINTER, **args)
    shrunk = [
        [one.args[name]["constexpr"] for name in "MNF"] for one in proposals_of(launch, start)
    ]
    together = [[1, 1, True], [2, 2, True], [4, 4, False]]
    alone = [[1, 4, True], [2, 4, True], [4, 1, True], [4, 2, True], [4, 4, False]]
    assert shrunk == together + alone


def test_a_dtype_is_replaced_in_arguments_and_text() -> None:
    """A dtype changes in arguments and in the source alike."""
    start = specimen("tl.store(x, tl.load(x).to(tl.bfloat16))", x={"dtype": "bf16", "align": 16})
    first, second = proposals_of(dtypes, start)
    assert first.pointers == {"x": "fp16"}
    assert body_of(first) == ["tl.store(x, tl.load(x).to(tl.float16))"]
    assert second.pointers == {"x": "fp32"}


def test_parameters_are_forgotten_merged_and_written_down() -> None:
    """Alignments, unread parameters, equal pointers and numbers are proposed in this order."""
    start = specimen("tl.store(x, tl.load(y) + n)", x=POINTER, y=POINTER, n={"int": 8}, z=POINTER)
    loose, fewer, one_pointer, *_, one, same = proposals_of(parameters, start)
    assert [spec.get("align") for spec in loose.args.values()] == [1, 1, None, 1]
    assert list(fewer.args) == ["x", "y", "n"]
    assert body_of(one_pointer) == ["tl.store(x, tl.load(x) + n)"]
    assert body_of(one) == ["tl.store(x, tl.load(y) + 1)"]
    assert body_of(same) == ["tl.store(x, tl.load(y) + 8)"]


# The last form


def test_the_last_form_has_one_step_a_line() -> None:
    """Nested loads get lines of their own, equal ones share one."""
    start = specimen("tl.store(foo, tl.dot(tl.load(foo), tl.load(foo)))", foo=POINTER)
    after = polish(start, reading, FakeOracle(lambda _: True))
    assert body_of(after) == ["a = tl.load(x_ptr)", "b = tl.dot(a, a)", "tl.store(x_ptr, b)"]
    assert after.args == {"x_ptr": POINTER}


def test_equal_steps_stay_apart_where_the_failure_needs_them() -> None:
    """Two equal loads stay if the failure needs both."""
    start = specimen("tl.store(foo, tl.dot(tl.load(foo), tl.load(foo)))", foo=POINTER)
    after = polish(start, reading, FakeOracle(lambda s: s.source.count("tl.load") == 2))
    assert body_of(after)[:2] == ["a = tl.load(x_ptr)", "b = tl.load(x_ptr)"]


def test_the_last_form_keeps_names_that_are_taken() -> None:
    """New names avoid parameters and helpers."""
    helper = "@triton.jit\ndef kernel(v):\n    return v\n\n\n"
    source = specimen("foo = kernel(a)\ntl.store(x, foo)", x=POINTER, a={"int": 8}).source
    source_text = source.replace("def kernel(x, a)", "def mine(x, a)")
    source_text = source_text.replace("@triton.jit\ndef mine", helper + "@triton.jit\ndef mine")
    [step, *_] = proposals_of(
        reading, Specimen(source_text, "mine", {"x": POINTER, "a": 1}, "sm90")
    )
    assert step.name == "mine"
    assert body_of(step) == ["b = kernel(a)", "tl.store(x_ptr, b)"]
