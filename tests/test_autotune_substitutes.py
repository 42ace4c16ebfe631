"""Which results a search for fallbacks is for, and whose fallbacks are whose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flacheck.autotune.substitutes import Substitutes, _is_mendable
from flacheck.autotune.trials import trials
from flacheck.model import Record
from tests.made_records import unknown
from tests.made_tuned import CONFIGS, fatal, good, result, skipped, tuned


@pytest.mark.parametrize(
    ("records", "mendable"),
    [
        ((good(), good()), False),
        ((good(), skipped()), False),
        ((good(), unknown()), False),
        ((good(), fatal()), True),
        ((skipped(), skipped()), True),
    ],
)
def test_other_settings_mend_what_ends_a_run(
    tmp_path: Path, records: tuple[Record, ...], mendable: bool
) -> None:
    """A failure that is not forgiven, or a list of which nothing compiles."""
    assert _is_mendable(result(tmp_path, *records)) == mendable


def test_without_a_failure_nothing_is_searched(tmp_path: Path) -> None:
    """Neither a compiler nor a store is asked for."""
    examined = (trials(tuned(tmp_path, configs=CONFIGS)), result(tmp_path, good(), good()))
    search = Substitutes(None, tmp_path / "none", 1, 1024)  # type: ignore[arg-type]
    assert search.add([examined], print) == [examined[1]]
    assert not (tmp_path / "none").exists()


def test_a_key_at_fault_is_nothing_to_search_for(tmp_path: Path) -> None:
    """With every configuration compiling, only its list of keys ends the run."""
    ended = replace(result(tmp_path, good(), good()), ends="key K is looked up past the end")
    assert not _is_mendable(ended)
