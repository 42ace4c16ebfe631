"""Attempts as workers report them, and findings as records hold them."""

from __future__ import annotations

import pytest
from msgspec import ValidationError

from flacheck.model.attempt import Attempt, Outcome, Resources


def test_an_attempt_is_read_as_a_worker_wrote_it() -> None:
    """A missing figure is None, not zero."""
    plain = {"outcome": "finished", "stage": "cubin", "resources": {"shared": 0, "registers": 64}}
    attempt = Attempt.from_json(plain)
    assert attempt == Attempt(
        Outcome.FINISHED, stage="cubin", resources=Resources(shared=0, registers=64)
    )
    assert attempt.resources.spills is None
    assert attempt.peak_mb is None


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({}, "missing required field `outcome`"),
        ({"outcome": "vanished"}, "Invalid enum value 'vanished'"),
        ({"outcome": "died", "signal": 6}, r"at `\$.signal`"),
        ({"outcome": "raised", "resources": {"shared": "much"}}, r"at `\$.resources.shared`"),
    ],
)
def test_what_is_no_attempt_is_refused(plain: dict[str, object], message: str) -> None:
    """The error names the wrong field."""
    with pytest.raises(ValidationError, match=message):
        Attempt.from_json(plain)
