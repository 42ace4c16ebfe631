"""Results that start a search for fallbacks, and the assignment of its fallbacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flacheck.capabilities.autotune.examination import is_mendable, with_fallbacks
from flacheck.capabilities.autotune.trials import trials
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.model import Cell, Record
from tests.made_records import unknown
from tests.made_tuned import CONFIGS, fatal, good, result, skipped, tuned_launch


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
    """A fatal failure, or a list in which nothing compiles, can be fixed by other settings."""
    assert is_mendable(result(tmp_path, *records)) == mendable


def test_a_key_at_fault_is_nothing_to_search_for(tmp_path: Path) -> None:
    """A key fault alone starts no search."""
    result_of_keys = replace(
        result(tmp_path, good(), good()), ends="key K is looked up past the end"
    )
    assert not is_mendable(result_of_keys)


def test_without_a_failure_nothing_is_searched(tmp_path: Path) -> None:
    """No search starts without a failure."""

    def search(cells: Sequence[Cell], records: Mapping[str, Record]) -> Iterable[Fallback]:
        raise AssertionError("a search was started")

    tuner_trials = trials(tuned_launch(tmp_path, configs=CONFIGS))
    fine = result(tmp_path, good(), good())
    assert with_fallbacks([(tuner_trials, fine)], search) == [fine]


def test_a_search_is_told_of_the_kernels_trials_everywhere(tmp_path: Path) -> None:
    """The search receives all trials as records; each result gets the fallbacks of its cells."""
    here = trials(tuned_launch(tmp_path, configs=CONFIGS))
    there = trials(tuned_launch(tmp_path, configs=CONFIGS, toolchain="triton==3.2.0"))
    fails = result(tmp_path, fatal(), good())
    runs = result(tmp_path, good(), good(), toolchain="triton==3.2.0")
    place = (fails.kernel, fails.package, fails.toolchain, fails.target)
    key = here.compiles()[0].key
    use = Fallback(*place, {"num_warps": 4}, {"num_warps": 8}, 1.0, key=key)
    searched_cells: list[Cell] = []

    def search(cells: Sequence[Cell], records: Mapping[str, Record]) -> Iterable[Fallback]:
        searched_cells.extend(cells)
        assert [records[cell.key].key for cell in cells] == [cell.key for cell in cells]
        return [use]

    first_result, other = with_fallbacks([(here, fails), (there, runs)], search)
    assert [cell.toolchain for cell in searched_cells] == ["triton==3.5.1"] * 2 + [
        "triton==3.2.0"
    ] * 2
    assert {cell.stage for cell in searched_cells} == {"compile"}
    assert first_result.fallbacks == (use,)
    assert other.fallbacks == ()
