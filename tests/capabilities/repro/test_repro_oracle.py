"""The oracle: which release is asked what, what it remembers, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from flacheck.capabilities.repro.budget import Budget, BudgetSpent
from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.oracle import (
    Oracle,
    same_code,
    same_signature,
    still_slow,
)
from flacheck.capabilities.repro.versions import ReleaseVerdict
from flacheck.model import Attempt, Cell, Outcome, Verdict
from tests.made_records import record
from tests.made_specimens import FAILS, FakeCompilers, chain, oracle

COMPILES = ReleaseVerdict(Verdict.COMPILES)


def test_the_failing_release_is_asked_first_and_no_further_than_it_fails() -> None:
    """A candidate that does not fail costs one compile, up to the failing stage."""
    compilers = FakeCompilers(lambda _: False)
    assert not oracle(compilers)(chain())
    assert compilers.asked == [(FAILS, "llir")]


def test_an_answer_is_remembered() -> None:
    """The same specimen is compiled once on each release."""
    compilers = FakeCompilers(lambda _: True)
    asking = oracle(compilers)
    assert asking(chain())
    assert asking(chain())
    others = [("triton==3.1.0", "llir"), ("triton==3.4.0", "llir")]
    assert compilers.asked == [(FAILS, "llir"), *others]


def test_a_slip_into_another_failure_is_refused_and_counted() -> None:
    """What fails otherwise, or where it must compile, is not the failure."""
    elsewhere = oracle(FakeCompilers(lambda _: True, slips=lambda _: True))
    otherwise = oracle(FakeCompilers(lambda _: False, slips=lambda _: True))
    assert not elsewhere(chain())
    assert not otherwise(chain())
    assert elsewhere.effort.slips == 1
    assert otherwise.effort.slips == 1
    assert otherwise.slips == {"FC301:llir:-:4f5da522": 1}


class FakeSeconds(Compilers):
    """Every compile ends well; the failing release takes so many seconds, the others so few."""

    def __init__(self, here: float, there: float) -> None:
        super().__init__({}, {})
        self._here, self._there = here, there

    def ask(self, cell: Cell, **changes: Any) -> Attempt:
        seconds = self._here if cell.toolchain == FAILS else self._there
        return Attempt(Outcome.FINISHED, seconds=seconds)


@pytest.mark.parametrize(
    ("here", "there", "holds"), [(10.0, 1.0, True), (1.0, 0.01, False), (10.0, 4.0, False)]
)
def test_a_slow_compile_stays_slow_and_its_contrast_quick(
    here: float, there: float, holds: bool
) -> None:
    """What is no longer slow, or slow everywhere, is refused."""
    slow = still_slow(record("compiles", seconds=here))
    asking = Oracle(FakeSeconds(here, there), FAILS, slow, {"triton==3.1.0": COMPILES})
    assert asking(chain()) is holds


def test_what_compiles_hides_no_failure() -> None:
    """A probe that compiles is done with; one that fails in whatever way is looked into."""
    fails, slips, compiles = (
        oracle(FakeCompilers(lambda _: True)),
        oracle(FakeCompilers(lambda _: False, slips=lambda _: True)),
        oracle(FakeCompilers(lambda _: False)),
    )
    assert fails.hides(chain())
    assert slips.hides(chain())
    assert not compiles.hides(chain())


def test_a_probe_that_was_compiled_is_no_slip_later() -> None:
    """It was asked for what it hides, and its failure is known already when it is proposed."""
    asking = oracle(FakeCompilers(lambda _: False, slips=lambda _: True))
    assert asking.hides(chain())
    assert not asking.fails(chain())
    assert asking.effort.slips == 0


@pytest.mark.parametrize(
    ("signature", "until"),
    [
        ("FC302:llir:reshapeOuts:03af4665", "llir"),
        ("FC401:cubin:-:bccefcad", "cubin"),
        ("FC101:ast:-:2b66fc33", None),
        ("FC501:load:-:2e65cb6b", "llir"),
    ],
)
def test_no_stage_runs_that_cannot_show_the_failure(signature: str, until: str | None) -> None:
    """A compile ends at the failing stage; a memory limit is known before the assembler runs."""
    failure = same_signature(record("fails", code=signature[:5], signature=signature))
    assert failure.until == until


def test_an_autotuners_fault_is_known_by_its_code() -> None:
    """Its message names keys, of which a reduction has fewer."""
    failure = same_code(record("fails", code="FC601", signature="FC601:autotune:-:1"))
    assert failure.shows(record("fails", code="FC601", signature="FC601:autotune:-:2"))
    assert not failure.shows(record("fails", code="FC602", signature="FC602:autotune:-:1"))
    assert not failure.shows(record("compiles"))


def test_a_budget_of_compiles_is_spent_one_by_one() -> None:
    """The compile after the last one raises."""
    budget = Budget(compiles=2)
    budget.spend()
    budget.spend()
    with pytest.raises(BudgetSpent):
        budget.spend()
    assert budget.ran == 2


def test_a_budget_of_no_seconds_allows_no_compile() -> None:
    """Whatever is asked, the clock is asked first."""
    budget = Budget(seconds=0.0)
    with pytest.raises(BudgetSpent):
        budget.check()
    with pytest.raises(BudgetSpent):
        budget.spend()
