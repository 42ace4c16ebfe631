"""Trials of a launch: one for each configuration, and one for the release's keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.autotune.trials import ruled_out, trials
from tests.made_tuned import CONFIGS, THREE, tuned_launch


def test_a_trial_holds_its_configuration_and_one_that_stands_for_the_others(tmp_path: Path) -> None:
    """A trial has two configurations: its own, and the first of the others."""
    tuner_trials = trials(tuned_launch(tmp_path, configs=THREE))
    launches = [cell.launch for cell in tuner_trials.configs if cell.launch]
    first, second, third = THREE
    pairs = [(first, second), (second, first), (third, first)]
    assert [launch.configs for launch in launches] == pairs
    assert [launch.keys for launch in launches] == [()] * 3
    assert [cell.options for cell in tuner_trials.configs] == [
        {"num_warps": 4, "num_stages": 2},
        {"num_warps": 8, "num_stages": 3},
        {"num_warps": 8, "num_stages": 3},
    ]


@pytest.mark.parametrize(
    ("toolchain", "count", "tuner_trials"),
    [("triton==3.5.1", 2, False), ("triton==3.1.0", 2, True), ("triton==3.1.0", 1, False)],
)
def test_keys_are_asked_of_a_release_that_looks_them_up_by_position(
    tmp_path: Path, toolchain: str, count: int, tuner_trials: bool
) -> None:
    """Keys are tested only for a release that finds them by position, with two configurations."""
    trial_set = trials(tuned_launch(tmp_path, configs=CONFIGS[:count], toolchain=toolchain))
    assert (trial_set.keys is not None) == tuner_trials
    assert len(list(trial_set.cells)) == count + tuner_trials


def test_a_configuration_as_a_compile_has_its_constants_filled_in(tmp_path: Path) -> None:
    """The compile of a configuration has its constants; heuristics' values stay omitted."""
    first, _ = trials(tuned_launch(tmp_path)).compiles()
    assert first.launch is not None
    assert first.launch.args["BK"] == {"constexpr": 32}
    assert first.launch.omitted == ("USE_G",)
    assert (first.stage, first.options) == ("compile", {"num_warps": 4, "num_stages": 2})
    assert first.configs == CONFIGS


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"num_warps": 64}, "num_warps=64 is 2048 threads, a block has at most 1024"),
        (
            {"num_warps": 16, "maxnreg": 168},
            "maxnreg=168 with num_warps=16: a thread can have at most 128 registers",
        ),
        ({"num_warps": 16, "maxnreg": 128}, None),
        ({"num_warps": 32}, None),
    ],
)
def test_what_no_block_can_have_is_known_before_a_compile(
    tmp_path: Path, config: dict[str, Any], why: str | None
) -> None:
    """Too many threads or registers are ruled out without a compile."""
    assert ruled_out(tuned_launch(tmp_path), {"kwargs": {}, **config}) == why
