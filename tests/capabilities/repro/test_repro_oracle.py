"""The oracle: the order of releases, its memory, and its rejections."""

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
    """A candidate that does not fail costs one compile up to the failing stage."""
    compilers = FakeCompilers(lambda _: False)
    assert not oracle(compilers)(chain())
    assert compilers.asked == [(FAILS, "llir")]


def test_an_answer_is_remembered() -> None:
    """A specimen is compiled once on each release."""
    compilers = FakeCompilers(lambda _: True)
    asking = oracle(compilers)
    assert asking(chain())
    assert asking(chain())
    others = [("triton==3.1.0", "llir"), ("triton==3.4.0", "llir")]
    assert compilers.asked == [(FAILS, "llir"), *others]


def test_a_slip_into_another_failure_is_refused_and_counted() -> None:
    """Another failure, or a failure on another release, is a slip."""
    elsewhere = oracle(FakeCompilers(lambda _: True, slips=lambda _: True))
    otherwise = oracle(FakeCompilers(lambda _: False, slips=lambda _: True))
    assert not elsewhere(chain())
    assert not otherwise(chain())
    assert elsewhere.effort.slips == 1
    assert otherwise.effort.slips == 1
    assert otherwise.slips == {"FC301:llir:-:4f5da522": 1}


class FakeSeconds(Compilers):
    """Compilers whose failing release takes so many seconds, the others so few."""

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
    """A candidate must be slow on one release and quick on the others."""
    slow = still_slow(record("compiles", seconds=here))
    asking = Oracle(FakeSeconds(here, there), FAILS, slow, {"triton==3.1.0": COMPILES})
    assert asking(chain()) is holds


def test_what_compiles_hides_no_failure() -> None:
    """A probe that fails in any way is examined further."""
    fails, slips, compiles = (
        oracle(FakeCompilers(lambda _: True)),
        oracle(FakeCompilers(lambda _: False, slips=lambda _: True)),
        oracle(FakeCompilers(lambda _: False)),
    )
    assert fails.hides(chain())
    assert slips.hides(chain())
    assert not compiles.hides(chain())


def test_a_probe_that_was_compiled_is_no_slip_later() -> None:
    """A probe's other failure is not counted as a slip."""
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
    """A compile stops at the failing stage."""
    failure = same_signature(record("fails", code=signature[:5], signature=signature))
    assert failure.until == until


def test_an_autotuners_fault_is_known_by_its_code() -> None:
    """A fault of an autotuner is compared by its code."""
    failure = same_code(record("fails", code="FC601", signature="FC601:autotune:-:1"))
    assert failure.shows(record("fails", code="FC601", signature="FC601:autotune:-:2"))
    assert not failure.shows(record("fails", code="FC602", signature="FC602:autotune:-:1"))
    assert not failure.shows(record("compiles"))


def test_a_budget_of_no_seconds_allows_no_compile() -> None:
    """A budget of zero seconds raises before a compile."""
    budget = Budget(seconds=0.0)
    with pytest.raises(BudgetSpent):
        budget.check()
    with pytest.raises(BudgetSpent):
        budget.spend()
