"""Passes that build kernels: slices and pipelines."""

from __future__ import annotations

import ast

import pytest

from flacheck.capabilities.repro.kernel.candidates import is_valid
from flacheck.capabilities.repro.kernel.syntax_trees import callee_name
from flacheck.capabilities.repro.kernel.value_graph import operations
from flacheck.capabilities.repro.passes.bare_expressions import bare_expressions
from flacheck.capabilities.repro.passes.new_kernels import (
    build_slices,
    distinct,
    in_loop,
    pipelines,
    single_slices,
    slices,
)
from flacheck.capabilities.repro.passes.partial_evaluation import evaluate_constants
from flacheck.capabilities.repro.passes.search import TOGETHER
from flacheck.capabilities.repro.reducer import reduce
from tests.made_specimens import (
    POINTER,
    FakeCompilers,
    calls,
    chain,
    oracle,
    reduce_by,
    specimen,
)

CONVERSION = """\
for t in range(n):
    if t > 3:
        at = t * 64 + tl.arange(0, 64)
        tl.store(y + at, tl.load(x + at, mask=at < n).to(tl.float8e4nv), mask=at < n)
    tl.store(y + t, 0.0)"""
BLOCK = "b = tl.make_block_ptr(x, (n, 64), (64, 1), (0, 0), (64, 64), (1, 0))\nc = tl.load(b)"


@pytest.mark.parametrize(
    ("body", "rejected_text", "statement"),
    [
        (CONVERSION, ".to(tl.float8e4nv)", "tl.zeros([64], dtype=tl.float16).to(tl.float8e4nv)"),
        (f"{BLOCK}\ntl.store(y, c)", "tl.make_block_ptr(", BLOCK.partition("\n")[0][4:]),
        ("a = tl.libdevice.tanh(tl.load(x))\ntl.store(y, a)", "tl.libdevice", "tl.libdevice"),
        (
            "a = tl.load(x + tl.arange(0, 16))\nb = a * a - n\ntl.store(y, b)",
            " - n",
            "tl.zeros([16], dtype=tl.float16) - n",
        ),
        (
            "p = x + tl.arange(0, 16)\na = tl.atomic_add(p, 1.0)\ntl.store(y, a)",
            "tl.atomic_add(",
            "tl.atomic_add(x + tl.arange(0, 16), 1.0)",
        ),
    ],
)
def test_an_expression_that_is_refused_stands_alone(
    body: str, rejected_text: str, statement: str
) -> None:
    """A rejected expression is left alone, with zeros or parameters as operands."""
    start = specimen(body, x=POINTER, y=POINTER, n={"int": 8})
    small = reduce_by(start, lambda candidate: rejected_text in candidate.source, bare_expressions)
    assert small.source.partition("):\n")[2].strip() == statement
    names = {node.id for node in ast.walk(ast.parse(statement)) if isinstance(node, ast.Name)}
    assert set(small.args) == names & set(start.args)


def test_slices_are_built_from_small_to_large() -> None:
    """The first slice of a dot loads its operands and stores its result."""
    start = evaluate_constants(chain())
    first = build_slices(start, [next(distinct(start))])
    ends = [callee_name(getattr(s, "value", s)) for s in first.function.body][-2:]
    assert ends == ["tl.dot", "tl.store"]
    assert calls(first, "tl.exp") == 0
    assert is_valid(first)


def test_inputs_of_one_type_may_be_one_load() -> None:
    """Two inputs of one type are proposed as one load and as two."""
    block = "tl.load({} + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])"
    body = f"a = {block.format('x')}\nb = {block.format('y')}\nc = tl.dot(a, b)\n"
    body += "tl.store(x + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], c)"
    start = specimen(body, x=POINTER, y=POINTER, n={"int": 8})
    loads = [calls(build_slices(start, [plan]), "tl.load") for plan in distinct(start)]
    assert loads[:2] == [1, 2]


def test_slices_that_compile_together_are_not_asked_one_by_one() -> None:
    """Slices that compile in one probe are not compiled again."""
    start = evaluate_constants(chain())
    plans = list(distinct(start))
    nothing = oracle(FakeCompilers(lambda _: False))
    assert not list(reduce(start, (slices,), (), nothing))
    assert nothing.effort.candidates == -(-len(plans) // TOGETHER)
    assert nothing.effort.candidates < len(plans)


def test_a_failing_slice_is_found_by_halves() -> None:
    """Only the failing slice is proposed."""
    start = evaluate_constants(chain())
    plans = list(distinct(start))
    exp = oracle(FakeCompilers(lambda s: calls(s, "tl.exp") == 1))
    [step] = reduce(start, (slices,), (), exp)
    assert calls(step.best, "tl.exp") == 1
    assert calls(step.best, "tl.dot") == 0
    assert (
        exp.effort.candidates
        < plans.index(next(p for p in plans if p.value.operation == "tl.exp")) + 2
    )


def test_single_slices_are_asked_one_by_one() -> None:
    """Single slices are compiled in order, without probes."""
    start = evaluate_constants(chain())
    single = oracle(FakeCompilers(lambda _: False))
    assert not list(reduce(start, (single_slices,), (), single))
    assert single.effort.candidates == len(list(distinct(start)))


BLOCK_OF_16 = "tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]"
PIPELINE = """\
h = tl.load(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]).to(tl.float32)
for t in range(T):
    k = tl.load(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :])
    h = tl.dot(k, h.to(tl.float16))
tl.store(y + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], h)"""


def test_a_pipeline_carries_its_sum_and_loads_the_rest_in_every_turn() -> None:
    """The loop carries the sum and loads from another address each time."""
    start = specimen(PIPELINE, x=POINTER, y={"dtype": "fp32", "align": 16}, T={"int": 8})
    [dot] = (value for value in operations(start) if value.operation == "tl.dot")
    after = in_loop(start, dot, 4)
    loop = next(s for s in after.function.body if isinstance(s, ast.For))
    turn = [ast.unparse(s) for s in loop.body]
    assert is_valid(after)
    assert any("tl.load(x + i * 4096 + " in line for line in turn)
    assert any(line.endswith("= sum.to(tl.float16)") for line in turn)
    assert turn[-1].startswith("sum = sum + c")


def test_the_deepest_pipeline_is_asked_first() -> None:
    """Shallower pipelines follow only while they still fail."""
    body = "b = tl.zeros([16, 16], tl.float16)\nc = b\n" + "c = tl.abs(c)\n" * 6
    body += f"tl.store(x + {BLOCK_OF_16}, tl.dot(c, b).to(tl.float16))"
    start = specimen(body, x=POINTER)
    search = pipelines(start)
    depths = [calls(next(search), "tl.abs"), calls(search.send(True), "tl.abs")]
    assert depths == [6, 3]
    with pytest.raises(StopIteration):
        search.send(False)
