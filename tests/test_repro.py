"""Reduction: what is proposed, what is refused, and what comes out, without a compiler."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flacheck.repro.kernel.dataflow import values
from flacheck.repro.kernel.folding import folded
from flacheck.repro.kernel.inference import inferred, walked
from flacheck.repro.kernel.order import cost
from flacheck.repro.kernel.reading import Reading
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import called, without_dead
from flacheck.repro.kernel.types import Tensor
from flacheck.repro.kernel.validity import is_valid
from flacheck.repro.passes import PASSES
from flacheck.repro.passes.aliases import single_assignment
from flacheck.repro.passes.deletion import Deletion, closure
from flacheck.repro.passes.dimensions import Dimensions
from flacheck.repro.passes.evaluation import evaluated
from flacheck.repro.passes.expressions import Expressions
from flacheck.repro.passes.loops import ControlFlow
from flacheck.repro.passes.pipelines import Loop
from flacheck.repro.passes.pointers import Pointers
from flacheck.repro.passes.slices import TOGETHER, Slices, built, distinct
from flacheck.repro.passes.tuning import (
    SHIFTED,
    TUNING,
    TUNING_FIRST,
    decorator_of,
    key_check,
    tuned,
)
from flacheck.repro.reducer import polished, reduce
from tests.made_specimens import (
    CHAIN,
    POINTER,
    FakeCompilers,
    Says,
    calls,
    chain,
    oracle,
    reduced,
    specimen,
)

# The pure parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", "7"),
        ("x * 1 + 0", "x"),
        ("0 * x", "0"),
        ("x if 3 > 4 else y", "y"),
        ("tl.cdiv(100, 64)", "2"),
        ("1 // 0", "1 // 0"),
        ("None is None and x", "x"),
        ("x and False", "x and False"),
        ("1.0 * x", "1.0 * x"),
    ],
)
def test_arithmetic_on_literals_is_done(text: str, expected: str) -> None:
    """What is known is evaluated; what would raise, or change a type, is left."""
    assert ast.unparse(folded(ast.parse(text, mode="eval"))) == expected


@given(
    st.integers(-50, 50),
    st.integers(-50, 50),
    st.sampled_from(["+", "-", "*", "//", "%", "<", "=="]),
)
def test_folding_agrees_with_python(left: int, right: int, operator: str) -> None:
    """A folded expression has the value that Python gives it."""
    text = f"({left}) {operator} ({right})"
    after = ast.unparse(folded(ast.parse(text, mode="eval")))
    try:
        expected = eval(text)
    except ZeroDivisionError:
        assert "0" in after
    else:
        assert eval(after) == expected


def test_constants_go_into_the_kernel() -> None:
    """Partial evaluation leaves no constexpr parameter, decides branches and names dtypes."""
    after = evaluated(chain())
    assert list(after.args) == ["x", "y", "T"]
    assert "tl.make_block_ptr(x, (64, 128)" in after.source
    assert "a.dtype" not in after.source


def test_helpers_are_inlined_where_they_return_once() -> None:
    """A helper's variables do not clash with the kernel's."""
    helper = "@triton.jit\ndef scaled(a, by):\n    b = a * by\n    return b + 1\n\n\n"
    after = evaluated(
        specimen("b = tl.load(x)\nc = scaled(b, 2)\ntl.store(x, b + c)", helper, x=POINTER)
    )
    assert "def scaled" not in after.source
    assert "b_2 = b * 2" in after.source


def test_a_helper_with_several_returns_stays() -> None:
    """What cannot be written out is still called."""
    helper = "@triton.jit\ndef pick(a):\n    if a > 1:\n        return a\n    return a + 1\n\n\n"
    after = evaluated(specimen("tl.store(x, pick(tl.load(x)))", helper, x=POINTER))
    assert "def pick" in after.source


def test_types_are_found_without_a_compiler() -> None:
    """Dtypes and shapes go through loads, dots, casts and what a loop carries."""
    after = evaluated(chain())
    types = inferred(after)
    named = {
        s.targets[0].id: types[s.value]
        for s in ast.walk(after.function)
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
    }
    assert named["a"] == Tensor("fp16", (64, 128))
    assert named["g"] == Tensor("fp32", (64, 128))
    assert named["b"] == Tensor("fp16", (64, 128))
    assert named["acc"] == Tensor("fp32", (64, 64))


@pytest.mark.parametrize(
    "body",
    [
        "a = tl.zeros([16, 32], tl.float16)\ntl.store(x, tl.dot(a, a))",
        "a = tl.zeros([8, 8], tl.float16)\ntl.store(x, tl.dot(a, a))",
        "a = tl.arange(0, 16) + tl.arange(0, 32)\ntl.store(x + tl.arange(0, 16), a)",
        "tl.store(x, tl.arange(0, 32))",
        "tl.store(x, y)",
    ],
)
def test_what_no_release_compiles_is_refused_unseen(body: str) -> None:
    """Shapes at odds, dots below the smallest and unbound names cost no compile."""
    assert not is_valid(specimen(body, x=POINTER))


def test_equal_extents_are_one_group_only_where_blocks_meet() -> None:
    """Axes that a dot sums over change together; two that never meet do not."""
    body = "a = tl.zeros([32, 16], tl.float16)\nb = tl.zeros([16, 32], tl.float16)\ntl.store(x, tl.sum(tl.dot(a, b)))"
    extents = walked(specimen(body, x=POINTER)).extents.values()
    inner = {id(e.group()) for e in extents if e == 16}
    outer = {id(e.group()) for e in extents if e == 32}
    assert (len(inner), len(outer)) == (1, 2)


def test_dead_code_goes_and_effects_stay() -> None:
    """Assignments that nothing reads are dropped, however long the chain."""
    body = ast.parse("a = 1\nb = a\nc = b\ntl.store(x, 1)\nd = tl.atomic_add(x, 1)").body
    assert [ast.unparse(s) for s in without_dead(body)] == [
        "tl.store(x, 1)",
        "d = tl.atomic_add(x, 1)",
    ]


def test_deleting_a_value_deletes_what_needs_it() -> None:
    """A chunk's closure holds every reader of what only the chunk gave."""
    body = ast.parse("a = f()\nb = a\nc = g()\nd = b + c\ntl.store(x, c)").body
    assert closure(body, {0}) == {0, 1, 3}


def test_names_are_bound_once_in_a_straight_kernel() -> None:
    """A variable that is bound again gets a name of its own, and plain copies disappear."""
    after = single_assignment(
        specimen("a = tl.load(x)\na = a + 1\nb = a\ntl.store(x, b)", x=POINTER)
    )
    assert [ast.unparse(s) for s in after.function.body] == [
        "a = tl.load(x)",
        "a_2 = a + 1",
        "tl.store(x, a_2)",
    ]


BODIES = st.lists(
    st.sampled_from(CHAIN.splitlines()[:1] + ["a = tl.load(x)", "b = a + 1", "tl.store(x, a)"]),
    max_size=6,
)


@given(BODIES, BODIES)
def test_the_order_is_total(left: list[str], right: list[str]) -> None:
    """Of two different specimens one is better, and neither is better than itself."""
    first, second = (specimen("\n".join(body) or "pass", x=POINTER) for body in (left, right))
    assert (cost(first) < cost(second)) + (cost(second) < cost(first)) == (first.key != second.key)


@settings(max_examples=15, deadline=None)
@given(st.sets(st.integers(0, 11), min_size=1, max_size=4))
def test_deletion_finds_exactly_what_is_needed(needed: set[int]) -> None:
    """Delta debugging over independent statements ends with those that the failure needs."""
    start = specimen("\n".join(f"tl.store(x + {at}, {at})" for at in range(12)), x=POINTER)

    def holds(candidate: Specimen) -> bool:
        left = {ast.unparse(s) for s in candidate.function.body}
        return all(f"tl.store(x + {at}, {at})" in left for at in needed)

    assert reduced(start, holds, Deletion()).lines == len(needed)


@settings(max_examples=4, deadline=None)
@given(st.sampled_from(["tl.dot", "tl.exp", "tl.trans", "tl.load"]), st.integers(0, 2))
def test_every_accepted_step_is_valid_smaller_and_fails(operation: str, least: int) -> None:
    """Whatever the failure needs, no step goes up in the order, and each satisfies the oracle."""

    def holds(candidate: Specimen) -> bool:
        assert is_valid(candidate)
        return calls(candidate, operation) >= least

    steps = [step.best for step in reduce(evaluated(chain()), (), PASSES, Says(holds))]
    costs = [cost(step) for step in steps]
    assert costs == sorted(costs, reverse=True)
    assert all(holds(step) for step in steps)


# The passes


def test_slices_are_built_from_small_to_large() -> None:
    """The first slice of a dot loads its operands and stores its result."""
    start = evaluated(chain())
    first = built(start, [next(distinct(start))])
    assert [called(getattr(s, "value", s)) for s in first.function.body][-2:] == [
        "tl.dot",
        "tl.store",
    ]
    assert calls(first, "tl.exp") == 0
    assert is_valid(first)


def test_block_pointers_become_plain() -> None:
    """Loads through block pointers become loads of `pointer + arange`."""
    after = reduced(evaluated(chain()), lambda s: calls(s, "tl.load") == 1, Pointers())
    assert "make_block_ptr" not in after.source
    assert (
        "tl.load(x + tl.arange(0, 64)[:, None] * 128 + tl.arange(0, 128)[None, :])" in after.source
    )


def test_a_loop_becomes_one_turn_of_it() -> None:
    """The loop goes where the failure does not need it, and stays as a short one where it does."""
    start = evaluated(chain())
    assert "for" not in reduced(start, lambda s: calls(s, "tl.dot") == 1, ControlFlow()).source
    kept = reduced(start, lambda s: "for t in range" in s.source, ControlFlow())
    assert "for t in range(4)" in kept.source


def test_extents_shrink_with_their_strides() -> None:
    """The smallest extents that a dot allows, and addresses to match."""
    body = "a = tl.load(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :])\n"
    body += "tl.store(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tl.dot(a, a))"
    after = reduced(specimen(body, x=POINTER), lambda s: calls(s, "tl.dot") == 1, Dimensions())
    assert "x + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]" in after.source
    assert "64" not in after.source


def test_the_last_form_has_one_step_a_line() -> None:
    """Nested loads get lines of their own; names are the usual ones."""
    start = specimen("tl.store(foo, tl.dot(tl.load(foo), tl.load(foo)))", foo=POINTER)
    after = polished(start, Reading(), Says(lambda _: True))
    assert [ast.unparse(s) for s in after.function.body] == [
        "a = tl.load(x_ptr)",
        "b = tl.load(x_ptr)",
        "c = tl.dot(a, b)",
        "tl.store(x_ptr, c)",
    ]
    assert after.args == {"x_ptr": POINTER}


# The loop with a compiler that fails by a predicate


def test_slices_that_compile_together_are_not_asked_one_by_one() -> None:
    """One compile passes over a dozen; a failing slice among them is found by halves, and only it
    is proposed.
    """
    start = evaluated(chain())
    plans = list(distinct(start))
    nothing, exp = (
        oracle(FakeCompilers(fails))
        for fails in (lambda _: False, lambda s: calls(s, "tl.exp") == 1)
    )
    assert not list(reduce(start, (Slices(),), (), nothing))
    assert nothing.asked == -(-len(plans) // TOGETHER) < len(plans)
    [step] = reduce(start, (Slices(),), (), exp)
    assert (calls(step.best, "tl.exp"), calls(step.best, "tl.dot")) == (1, 0)
    assert exp.asked < plans.index(next(p for p in plans if p.value.operation == "tl.exp")) + 2


def test_a_pipeline_carries_its_sum_and_loads_the_rest_in_every_turn() -> None:
    """What the loop carries of the sum's type is the sum; a load is of another place in each turn."""
    body = """\
h = tl.load(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]).to(tl.float32)
for t in range(T):
    k = tl.load(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :])
    h = tl.dot(k, h.to(tl.float16))
tl.store(y + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], h)"""
    start = specimen(body, x=POINTER, y={"dtype": "fp32", "align": 16}, T={"int": 8})
    [dot] = (value for value in values(start) if value.operation == "tl.dot")
    built_loop = Loop(dot, 4).specimen(start)
    loop = next(s for s in built_loop.function.body if isinstance(s, ast.For))
    turn = [ast.unparse(s) for s in loop.body]
    assert is_valid(built_loop)
    assert any("tl.load(x + i * 4096 + " in line for line in turn)
    assert any(line.endswith("= sum.to(tl.float16)") for line in turn)
    assert turn[-1].startswith("sum = sum + c")


def test_calls_without_what_they_must_have_are_not_proposed() -> None:
    """No store without a value, no dot of one operand: no release takes them."""
    start = specimen("a = tl.load(x)\ntl.store(x, tl.maximum(a, a))", x=POINTER)
    search = Expressions().search(start)
    candidate, proposed = next(search, None), []
    while candidate is not None:
        proposed.append(candidate.source)
        try:
            candidate = search.send(False)
        except StopIteration:
            candidate = None
    assert proposed and not [s for s in proposed if "tl.maximum(a)" in s or "tl.store(x)" in s]


# Autotuners


def test_an_autotuner_is_written_and_read_back() -> None:
    """Configurations and keys survive the decorator's text."""
    configs = [{"kwargs": {"B": 32}}, {"kwargs": {"B": 64}, "num_warps": 8}]
    assert decorator_of(tuned(specimen("pass", B={"constexpr": 1}), configs, ["B"])) == (
        configs,
        ["B"],
    )


def test_an_autotuner_is_reduced_to_two_configurations_and_one_key() -> None:
    """The body goes, and every key and parameter that the fault does not need."""
    configs = [{"kwargs": {"B": b}, "num_warps": w} for b in (32, 64, 128) for w in (2, 4)]
    bare = specimen(
        CHAIN,
        x=POINTER,
        y=POINTER,
        T={"int": 8},
        M={"constexpr": 64},
        N={"constexpr": 128},
        B={"constexpr": 1},
    )
    start = tuned(
        bare.with_(args={n: s for n, s in bare.args.items() if n != "B"}), configs, ["M", "N", "T"]
    )

    def holds(candidate: Specimen) -> bool:
        found, keys = decorator_of(candidate)
        return len(found) > 1 and "N" in keys and "N" in candidate.args

    best = start
    for step in reduce(start, TUNING_FIRST, TUNING, Says(holds)):
        best = step.best
    found, keys = decorator_of(best)
    assert (len(found), keys, list(best.args), best.lines) == (2, ["N"], ["N"], 1)


def test_a_scripts_check_compares_the_key_with_what_it_names() -> None:
    """Strings in a key are dtypes and come last; a wrong number is said, a right one is not."""
    one = tuned(specimen("pass", K={"constexpr": 32}), [{"kwargs": {}, "num_warps": 2}] * 2, ["K"])
    for key, said in (((32, "torch.float16"), []), ((64, "torch.float16"), [SHIFTED])):
        printed: list[str] = []
        kernel = type("kernel", (), {"cache": {key: None}})
        exec(
            key_check(one),
            {"kernel": kernel, "print": lambda text, *_, to=printed: to.append(text.strip(":"))},
        )
        assert printed == said
