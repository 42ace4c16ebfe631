"""Mutated launches files, matrices, pins, logs and settings: an answer or one error, soon."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile import KINDS, Guard, attempt

ANY = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


# A matrix of any text expands to hundreds of cells.
SLOW_MATRIX = pytest.param("matrix", marks=pytest.mark.slow)


@pytest.mark.parametrize("kind", [*sorted(KINDS.keys() - {"matrix"}), SLOW_MATRIX])
def test_no_input_ends_in_a_traceback(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nor runs anything, nor reads what it was not given."""
    folder = tmp_path_factory.mktemp(kind)
    guard = Guard.installed()

    @ANY
    @given(data=st.data())
    def attack(data: st.DataObject) -> None:
        text = data.draw(KINDS[kind].strategy)
        assert attempt(kind, text, folder, guard) is None

    attack()
