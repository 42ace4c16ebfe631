"""Reduction: what is proposed, what is refused, and what comes out, without a compiler."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flacheck.model import Record, Verdict
from flacheck.packages.package import Package
from flacheck.repro import versions
from flacheck.repro.decoration import refused
from flacheck.repro.kernel.dataflow import values
from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.folding import folded
from flacheck.repro.kernel.inference import inferred, walked
from flacheck.repro.kernel.order import cost
from flacheck.repro.kernel.reading import Reading
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import called, without_dead
from flacheck.repro.kernel.types import Tensor
from flacheck.repro.kernel.validity import is_valid
from flacheck.repro.oracle import Budget, Oracle, SameSignature
from flacheck.repro.output import message
from flacheck.repro.output.issue import issue, nameless
from flacheck.repro.output.result import Result, Tally
from flacheck.repro.output.script import Symptom, render
from flacheck.repro.passes import FIRST, PASSES
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
from flacheck.repro.reducer import Pass, polished, reduce
from flacheck.repro.slow import SlowOracle, as_slow, quick
from flacheck.repro.ttir import without_locations
from flacheck.repro.verification import Runs
from flacheck.repro.versions import Outcome
from tests.made_records import record

HEAD = "import triton\nimport triton.language as tl\n\n\n"
POINTER = {"dtype": "fp16", "align": 16}
SCHEMA = json.loads(
    (Path(__file__).parent.parent / "flacheck/tables/schemas/repro-1.json").read_text()
)
FAILS, SIGNATURE = "triton==3.2.0", "FC302:llir:reshapeOuts:03af4665"


def specimen(
    body: str, prelude: str = "", options: dict[str, Any] | None = None, **args: Any
) -> Specimen:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    parameters = ", ".join(
        f"{name}: tl.constexpr" if isinstance(spec, dict) and "constexpr" in spec else name
        for name, spec in args.items()
    )
    source = f"{HEAD}{prelude}@triton.jit\ndef kernel({parameters}):\n{lines}"
    return Specimen(source, "kernel", args, "sm90", options or {})


CHAIN = """\
i = tl.program_id(0)
p = tl.make_block_ptr(x, (M, N), (N, 1), (i * M, 0), (M, N), (1, 0))
acc = tl.zeros([M, M], dtype=tl.float32)
for t in range(T):
    a = tl.load(p, boundary_check=(0, 1))
    g = tl.exp(a.to(tl.float32))
    b = (a * g).to(a.dtype)
    s = tl.dot(b, tl.trans(a))
    acc += s
tl.store(y + tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :], acc)"""


def chain() -> Specimen:
    return specimen(
        CHAIN,
        x=POINTER,
        y={"dtype": "fp32", "align": 16},
        T={"int": 8},
        M={"constexpr": 64},
        N={"constexpr": 128},
        options={"num_warps": 8, "num_stages": 3},
    )


class FakeCompilers:
    """Fails where a predicate says so; `elsewhere` are the releases on which another failure shows."""

    def __init__(
        self, fails: Callable[[Specimen], bool], slips: Callable[[Specimen], bool] = lambda s: False
    ) -> None:
        self._fails, self._slips = fails, slips
        self.asked: list[tuple[str, str | None]] = []

    def compile(self, specimen: Specimen, release: str, until: str | None = None) -> Record:
        self.asked.append((release, until))
        if release == FAILS and self._fails(specimen):
            return record("fails", code="FC302", signature=SIGNATURE)
        if self._slips(specimen):
            return record("fails", code="FC301", signature="FC301:llir:-:00000000")
        return record("compiles")


def calls(found: Specimen, name: str) -> int:
    return sum(called(node) == name for node in ast.walk(found.function))


@dataclass(frozen=True)
class Says:
    """A judge that goes by a predicate; what compiles anywhere compiles everywhere."""

    holds: Callable[[Specimen], bool]

    def __call__(self, specimen: Specimen) -> bool:
        return self.holds(specimen)

    fails = hides = __call__


def reduced(start: Specimen, holds: Callable[[Specimen], bool], *passes: Pass) -> Specimen:
    best = start
    for step in reduce(start, (), passes, Says(holds)):
        best = step.best
    return best


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


def two_dots(found: Specimen) -> bool:
    return calls(found, "tl.dot") >= 1 and found.options.get("num_warps") == 8


def oracle(compilers: FakeCompilers, compiles: int | None = None) -> Oracle:
    return Oracle(
        compilers,
        FAILS,
        SameSignature(SIGNATURE),
        ["triton==3.1.0", "triton==3.4.0"],
        Budget(compiles),
    )


def test_a_kernel_is_reduced_to_what_fails() -> None:
    """From a loop over block pointers to loads, the operation and a store; options as small as they
    may be.
    """
    holds = oracle(FakeCompilers(two_dots))
    best = chain()
    for step in reduce(best, FIRST, PASSES, holds):
        best = step.best
    assert best.lines <= 3
    assert dict(best.options) == {"num_warps": 8}
    assert holds.asked < 60


def test_the_failing_release_is_asked_first_and_no_further_than_it_fails() -> None:
    """A candidate that does not fail costs one compile, up to the failing stage."""
    compilers = FakeCompilers(lambda _: False)
    assert not oracle(compilers)(chain())
    assert compilers.asked == [(FAILS, "llir")]


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


def test_other_releases_are_asked_of_the_last_of_several_improvements() -> None:
    """Twelve statements, of which one is needed: fewer questions elsewhere than improvements."""
    start = specimen("\n".join(f"tl.store(x + {at}, {at})" for at in range(12)), x=POINTER)
    compilers = FakeCompilers(lambda s: "x + 7" in s.source or "x + 0" in s.source)
    best = [step.best for step in reduce(start, (), (Singly(),), oracle(compilers))][-1]
    elsewhere = sum(release != FAILS for release, _ in compilers.asked)
    assert best.lines == 1
    assert elsewhere < 0.6 * 2 * 11


def test_an_improvement_that_slips_elsewhere_is_undone() -> None:
    """The releases that must compile are then asked of each: what they refuse stays."""
    start = specimen("\n".join(f"tl.store(x + {at}, {at})" for at in range(6)), x=POINTER)
    needed = FakeCompilers(lambda s: "x + 5," in s.source, slips=lambda s: "x + 3," not in s.source)
    best = [step.best for step in reduce(start, (), (Singly(),), oracle(needed))][-1]
    assert [ast.unparse(s) for s in best.function.body] == [
        "tl.store(x + 3, 3)",
        "tl.store(x + 5, 5)",
    ]


class Singly:
    """Without one statement after another, the first first."""

    name = "singly"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        at = 0
        while at < len(best.function.body):
            with edited(best) as kernel:
                del kernel.body[at]
            if (yield kernel.specimen):
                best = kernel.specimen
            else:
                at += 1


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


def test_an_answer_is_remembered() -> None:
    """The same specimen is compiled once on each release."""
    compilers = FakeCompilers(lambda _: True)
    asking = oracle(compilers)
    assert asking(chain()) and asking(chain())
    assert compilers.asked == [(FAILS, "llir"), ("triton==3.1.0", None), ("triton==3.4.0", None)]


def test_a_slip_into_another_failure_is_refused_and_counted() -> None:
    """What fails otherwise, or where it must compile, is not the failure."""
    elsewhere = oracle(FakeCompilers(lambda _: True, slips=lambda _: True))
    otherwise = oracle(FakeCompilers(lambda _: False, slips=lambda _: True))
    assert not elsewhere(chain()) and not otherwise(chain())
    assert (elsewhere.slipped, otherwise.slipped) == (1, 1)


def test_a_spent_budget_leaves_the_best_so_far() -> None:
    """The loop ends without an error, and never compiles more than it may."""
    holds = oracle(FakeCompilers(two_dots), compiles=12)
    steps = [step.best for step in reduce(chain(), FIRST, PASSES, holds)]
    assert steps and two_dots(steps[-1])
    assert holds.budget.ran == 12


def test_the_same_input_gives_the_same_output() -> None:
    """Two reductions take the same steps."""
    first, second = (
        [step.best.key for step in reduce(chain(), FIRST, PASSES, oracle(FakeCompilers(two_dots)))]
        for _ in range(2)
    )
    assert first == second


# What is written


def test_contrasts_are_the_nearest_that_compile() -> None:
    """One older and one newer release, those that fail in between passed over."""
    good, bad = Outcome(Verdict.COMPILES), Outcome(Verdict.FAILS, SIGNATURE)
    found = {
        "triton==3.0.0": good,
        "triton==3.1.0": good,
        FAILS: bad,
        "triton==3.3.0": bad,
        "triton==3.4.0": good,
    }
    assert versions.contrasts(found, FAILS) == ["triton==3.1.0", "triton==3.4.0"]


@pytest.mark.parametrize(
    ("said", "signal", "words"),
    [
        (
            "ptxas /tmp/a.ptx, line 63; error   : Feature '.bf16' requires .target sm_80 or higher",
            None,
            "error   : Feature '.bf16' requires .target sm_80 or higher",
        ),
        ("python: /project/x.cpp:5: int f(): Assertion `a == b' failed.", "SIGABRT", "a == b"),
        ("SIGSEGV in stage llir, nothing on stderr", "SIGSEGV", "SIGSEGV"),
        (
            "out of resource: shared memory, Required: 245760, Hardware limit: 232448.",
            None,
            "out of resource: shared memory, Required",
        ),
    ],
)
def test_a_script_looks_for_words_that_every_machine_prints(
    said: str, signal: str | None, words: str
) -> None:
    """No path, line or quantity is among them."""
    found = message.words(record("fails", message=said, signal=signal))
    assert found == words


def test_no_folder_of_the_machine_is_named() -> None:
    """Paths keep their last part alone; IR loses its locations."""
    assert nameless("at /home/me/x/k.py:3, a / b") == "at k.py:3, a / b"
    assert without_locations('#loc = loc("/home/k.py":1:0)\n%0 = x loc(#loc)\n') == "%0 = x\n"


def test_scripts_are_python_that_imports_only_triton() -> None:
    """In each form: types alone, a launch, an autotuner's run, and a signal's name to look for."""
    plain = specimen("tl.store(x, 1)", x={"dtype": "fp16", "align": 1})
    tuner = tuned(
        specimen("pass", x=POINTER, K={"constexpr": 32}),
        [{"kwargs": {}, "num_warps": 2}] * 2,
        ["K"],
    )
    for one in (plain, chain(), tuner):
        for words in ("a 'quoted' \"thing\"", "SIGSEGV"):
            tree = ast.parse(render(one, Symptom(words, "triton 3.2.0 fails")))
            imports = {
                a.name.split(".")[0]
                for n in ast.walk(tree)
                if isinstance(n, ast.Import)
                for a in n.names
            }
            assert imports <= {"os", "signal", "subprocess", "sys", "triton", "types"}


def test_an_autotuner_is_written_and_read_back() -> None:
    """Configurations and keys survive the decorator's text."""
    configs = [{"kwargs": {"B": 32}}, {"kwargs": {"B": 64}, "num_warps": 8}]
    assert decorator_of(tuned(specimen("pass", B={"constexpr": 1}), configs, ["B"])) == (
        configs,
        ["B"],
    )


def result(tmp_path: Path) -> Result:
    table = {FAILS: Outcome(Verdict.FAILS, SIGNATURE), "triton==3.4.0": Outcome(Verdict.COMPILES)}
    failing = record("fails", code="FC302", signature=SIGNATURE, message="/project/l.cpp:1: boom")
    small = specimen("tl.store(x, 1)", x=POINTER)
    return Result(
        cell=chain().cell(FAILS),
        record=failing,
        original=chain(),
        reduced=small,
        symptom=Symptom("boom", "triton 3.2.0 fails"),
        script=render(small, Symptom("boom", "triton 3.2.0 fails")),
        original_script=render(chain(), Symptom("boom", "triton 3.2.0 fails")),
        tally=Tally(3, 5, 1, 0.5),
        runs=Runs(3, 3),
        original_table=table,
        reduced_table=table,
        exits={FAILS: 0, "triton==3.4.0": 1},
        log=("found at /home/me/secret/x.py",),
    )


def test_what_is_written_follows_the_schema_and_names_no_machine(tmp_path: Path) -> None:
    """Every file is there, the JSON as the schema has it, and no folder of the machine in any."""
    from flacheck.repro.output import files

    written = files.write(result(tmp_path), tmp_path / "out")
    assert {f.name for f in written} == {
        "repro.py",
        "original.py",
        "issue.md",
        "log.txt",
        "repro.json",
    }
    jsonschema.validate(json.loads((tmp_path / "out/repro.json").read_text()), SCHEMA)
    assert not [f for f in written if "/home/" in f.read_text() or "/project/" in f.read_text()]


def test_an_issue_says_where_a_reduction_does_not_show_the_failure(tmp_path: Path) -> None:
    """A release that the original fails on and the script does not is named."""
    from dataclasses import replace

    found = replace(result(tmp_path), exits={FAILS: 1, "triton==3.4.0": 1})
    assert "Not shown by the reproducer, though the original fails so there: 3.2.0." in list(
        issue(found)
    )


# Slow compiles and autotuners


def test_slow_is_told_from_other_releases() -> None:
    """Ten seconds, and five times the median of the others; the contrasts are those that are quick."""
    good = {
        f"triton==3.{n}.0": Outcome(Verdict.COMPILES, None, seconds)
        for n, seconds in enumerate((2, 2, 21, 19, 3))
    }
    slow = as_slow(record("compiles", toolchain="triton==3.2.0", seconds=21.0), good)
    assert slow is not None and (slow.code, slow.verdict) == ("FC921", Verdict.FAILS)
    assert quick(good, "triton==3.2.0") == ["triton==3.1.0", "triton==3.4.0"]
    assert as_slow(record("compiles", toolchain="triton==3.2.0", seconds=9.0), good) is None


class FakeSeconds:
    """Every compile ends well; the failing release takes so many seconds, the others so few."""

    def __init__(self, here: float, there: float) -> None:
        self._here, self._there = here, there

    def compile(self, specimen: Specimen, release: str, until: str | None = None) -> Record:
        return record("compiles", seconds=self._here if release == FAILS else self._there)


@pytest.mark.parametrize(
    ("here", "there", "holds"), [(10.0, 1.0, True), (1.0, 0.01, False), (10.0, 4.0, False)]
)
def test_a_slow_compile_stays_slow_and_its_contrast_quick(
    here: float, there: float, holds: bool
) -> None:
    """What is no longer slow, or slow everywhere, is refused."""
    assert (
        SlowOracle(FakeSeconds(here, there), FAILS, ["triton==3.1.0"], Budget())(chain()) is holds
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


def test_a_refused_key_is_found_in_the_sources_of_its_package(tmp_path: Path) -> None:
    """The kernel asked for when it is at fault, else the first that is; nothing is imported."""
    text = "@triton.autotune(configs=[], key=['K', 'gone'])\n@triton.jit\ndef {}(x, K):\n    helper(x)\n"
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/a.py").write_text(text.format("first"))
    (tmp_path / "pack/b.py").write_text(text.format("second"))
    package = Package("pack", "1", str(tmp_path), "0", {})
    assert refused(package, "pack.b:second", "sm90").name == "second"
    assert refused(package, "pack.c:other", "sm90").name == "first"
    assert decorator_of(refused(package, "pack.b:second", "sm90"))[1] == ["K", "gone"]
