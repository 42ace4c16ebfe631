"""The budget of a whole reproduction."""

from __future__ import annotations

import pytest

from flacheck.capabilities.repro.budget import Budget, BudgetSpent
from flacheck.errors import Exit


def test_what_is_kept_back_is_for_the_end() -> None:
    """The reserve can be spent only after its release."""
    budget = Budget(compiles=10)
    budget.keep_back(compiles=4, seconds=0.0)
    for _ in range(6):
        budget.spend()
    with pytest.raises(BudgetSpent):
        budget.spend()
    assert budget.spent
    budget.release()
    for _ in range(4):
        budget.spend()
    assert budget.ran == 10


def test_a_small_budget_keeps_back_half_at_most() -> None:
    """The reserve is at most half of the budget."""
    budget = Budget(compiles=10, seconds=60.0)
    budget.keep_back(compiles=100, seconds=100.0)
    assert budget.reserve_compiles == 5
    assert 29.0 < budget.seconds_left <= 30.0


def test_without_a_limit_nothing_is_ever_spent() -> None:
    """A budget without limits is never spent."""
    budget = Budget()
    budget.keep_back(compiles=100, seconds=100.0)
    for _ in range(1000):
        budget.spend()
    budget.check()
    assert not budget.spent


def test_a_spent_budget_is_incomplete() -> None:
    """The message names the option that allows more."""
    assert BudgetSpent.exit_code is Exit.INCOMPLETE
    assert "--budget" in str(BudgetSpent())
