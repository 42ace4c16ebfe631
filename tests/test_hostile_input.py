"""Mutated launches files, matrices, pins, logs and settings give a result or one error, soon."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile import KINDS, Guard, Kind, attempt
from tests.hostile_files import kinds

ANY = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


# A matrix of any text expands to hundreds of cells.
SLOW_MATRIX = pytest.param("matrix", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [*sorted(KINDS.keys() - {"matrix"}), SLOW_MATRIX])
def test_no_input_ends_in_a_traceback(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Inputs also run nothing and read no other file."""
    _attack(KINDS[name], tmp_path_factory.mktemp(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(kinds().keys() - KINDS.keys()))
def test_no_file_ends_a_command_in_a_traceback(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published files, locks, logs, stores and others, of which bytes or values were changed."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    _attack(kinds()[name], tmp_path)


def _attack(kind: Kind, folder: Path) -> None:
    guard = Guard.the_guard()

    @ANY
    @given(data=st.data())
    def attack(data: st.DataObject) -> None:
        text = data.draw(kind.strategy)
        assert attempt(kind, text, folder, guard) is None

    attack()
