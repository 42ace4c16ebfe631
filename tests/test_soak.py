"""A short slice of the soak: `python -m tests.soak` is the whole."""

from __future__ import annotations

import random

import pytest

from flacheck.engine import executors
from tests import soak


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that does not start within a short time counts as not starting."""
    monkeypatch.setattr(executors, "START", 5.0)


def test_there_are_a_hundred_kinds_of_faults() -> None:
    """No two faults agree in process, moment and effect."""
    names = [kind.name for kind in soak.faults()]
    assert len(names) == len(set(names)) >= 100


@pytest.mark.slow
def test_faults_are_judged_right() -> None:
    """Each fault is among cells that must compile."""
    tally = soak.inject(12, random.Random(7))
    assert (tally.wrong, tally.counts["right"]) == ([], 12)


@pytest.mark.slow
def test_kills_from_outside_make_nothing_fail() -> None:
    """And hang nothing."""
    assert soak.strike(10, random.Random(7)).wrong == []


@pytest.mark.slow
def test_a_killed_parent_loses_nothing_and_leaves_nothing() -> None:
    """Scans continue where they stopped."""
    assert soak.orphan(3, random.Random(7)).wrong == []
