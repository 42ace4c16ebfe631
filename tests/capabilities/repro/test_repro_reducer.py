"""The loop, with a compiler that fails by a predicate."""

from __future__ import annotations

import ast
from collections.abc import Generator

import pytest

from flacheck.capabilities.repro import reducer
from flacheck.capabilities.repro.budget import Budget
from flacheck.capabilities.repro.kernel.rewriting import rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes import FIRST, PASSES
from flacheck.capabilities.repro.passes.readable_form import reading
from flacheck.capabilities.repro.reducer import polish, reduce
from tests.made_specimens import FAILS, POINTER, FakeCompilers, chain, oracle, specimen, two_dots


def singly(best: Specimen) -> Generator[Specimen, bool, None]:
    """Propose the kernel without one statement after another."""
    at = 0
    while at < len(best.function.body):
        body = best.copied_body()
        del body[at]
        candidate = rewrite(best, body)
        if (yield candidate):
            best = candidate
        else:
            at += 1


def test_a_kernel_is_reduced_to_what_fails() -> None:
    """A loop over block pointers becomes a load, a dot and a store."""
    holds = oracle(FakeCompilers(two_dots))
    best = chain()
    for step in reduce(best, FIRST, PASSES, holds):
        best = step.best
    assert best.lines <= 3
    assert dict(best.options) == {"num_warps": 8}
    assert holds.effort.candidates < 60


def test_other_releases_are_asked_of_the_last_of_several_improvements() -> None:
    """Other releases compile fewer candidates than there are improvements."""
    start = specimen("\n".join(f"tl.store(x + {at}, {at})" for at in range(12)), x=POINTER)
    compilers = FakeCompilers(lambda s: "x + 7" in s.source or "x + 0" in s.source)
    best = [step.best for step in reduce(start, (), (singly,), oracle(compilers))][-1]
    elsewhere = sum(release != FAILS for release, _ in compilers.asked)
    assert best.lines == 1
    assert elsewhere < 0.6 * 2 * 11


def test_an_improvement_that_slips_elsewhere_is_undone() -> None:
    """After a slip, the other releases compile every improvement."""
    start = specimen("\n".join(f"tl.store(x + {at}, {at})" for at in range(6)), x=POINTER)
    compilers = FakeCompilers(
        lambda s: "x + 5," in s.source, slips=lambda s: "x + 3," not in s.source
    )
    best = [step.best for step in reduce(start, (), (singly,), oracle(compilers))][-1]
    assert [ast.unparse(s) for s in best.function.body] == [
        "tl.store(x + 3, 3)",
        "tl.store(x + 5, 5)",
    ]


def test_a_spent_budget_leaves_the_best_so_far() -> None:
    """The loop ends without an error and within the budget."""
    holds = oracle(FakeCompilers(two_dots), compiles=12)
    steps = [step.best for step in reduce(chain(), FIRST, PASSES, holds)]
    assert steps
    assert two_dots(steps[-1])
    assert holds.compilers.budget.ran == 12


@pytest.mark.slow
def test_the_same_input_gives_the_same_output() -> None:
    """Two reductions take the same steps."""
    first, second = (
        [step.best.key for step in reduce(chain(), FIRST, PASSES, oracle(FakeCompilers(two_dots)))]
        for _ in range(2)
    )
    assert first == second


def test_a_pass_that_runs_first_is_taken_whatever_the_order_says() -> None:
    """The readable form is taken although the order prefers the other."""
    start = specimen("tl.store(x, tl.dot(tl.load(x), tl.load(x + 16)))", x=POINTER)
    holding = oracle(FakeCompilers(lambda s: "tl.dot" in s.source))
    refusing = oracle(FakeCompilers(lambda _: False))
    assert polish(start, reading, holding).lines == 4
    assert polish(start, reading, refusing) == start


def to_and_fro(best: Specimen) -> Generator[Specimen, bool, None]:
    """Propose two forms of a kernel in turn, without an end."""
    forms = (best.with_(options={"num_warps": 1}), best.with_(options={"num_warps": 2}))
    while True:
        yield forms[0]
        yield forms[1]
        if not (yield best):
            return


def test_no_form_is_taken_twice_by_a_pass() -> None:
    """A pass cannot alternate between two forms."""
    holds = oracle(FakeCompilers(lambda _: True))
    steps = list(reduce(chain(), (to_and_fro,), (), holds))
    assert len({step.best.key for step in steps}) == len(steps)


def endless(best: Specimen) -> Generator[Specimen, bool, None]:
    """Propose one specimen without an end."""
    while True:
        yield best.with_(options={"num_warps": 1})


def test_a_pass_that_never_ends_is_ended_by_the_clock() -> None:
    """Cached answers cost time, which the budget limits."""
    holds = oracle(FakeCompilers(lambda _: False))
    holds.compilers.budget = Budget(seconds=0.3)
    assert list(reduce(chain(), (), (endless,), holds)) == []
    assert holds.compilers.budget.spent


def test_a_short_body_that_loses_no_line_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search without progress on a short body ends early."""
    monkeypatch.setattr(reducer, "POLISHING", 0.2)
    start = specimen("tl.store(x, 1)", x=POINTER)
    holds = oracle(FakeCompilers(lambda _: False))
    assert list(reduce(start, (), (endless,), holds)) == []
    assert holds.ended_early
    assert not holds.compilers.budget.spent


def test_a_long_body_is_never_left_to_the_polishing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search on a long body continues until the budget ends."""
    monkeypatch.setattr(reducer, "POLISHING", 0.0)
    start = specimen("\n".join(f"tl.store(x, {at})" for at in range(11)), x=POINTER)
    holds = oracle(FakeCompilers(lambda _: False))
    holds.compilers.budget = Budget(seconds=0.3)
    assert list(reduce(start, (), (endless,), holds)) == []
    assert holds.compilers.budget.spent
    assert not holds.ended_early
