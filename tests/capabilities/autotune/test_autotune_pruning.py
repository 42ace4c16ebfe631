"""Configurations that a kernel leaves out itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flacheck.capabilities.autotune.pruning import has_list, left_out_configs
from tests.made_tuned import CONFIGS, THREE, tuned_launch


def test_what_was_listed_and_not_tried_was_left_out(tmp_path: Path) -> None:
    """A configuration in the decorator's list without a record was pruned."""
    launch = tuned_launch(tmp_path, configs=CONFIGS)
    assert left_out_configs(THREE, launch.cell) == [THREE[2]]


def test_constants_of_heuristics_below_the_autotuner_change_nothing(tmp_path: Path) -> None:
    """A heuristic's constant does not make a configuration different."""
    first, second = CONFIGS
    config = {**first, "kwargs": {**first["kwargs"], "TWICE": 64}}
    assert left_out_configs(CONFIGS, tuned_launch(tmp_path, configs=(config,)).cell) == [second]


def test_other_options_are_another_configuration(tmp_path: Path) -> None:
    """Equal tiles with other warps are another configuration."""
    first, _ = CONFIGS
    other = {**first, "num_warps": 1}
    assert left_out_configs((first, other), tuned_launch(tmp_path, configs=(first,)).cell) == [
        other
    ]


def test_a_cut_kernel_has_lost_its_list(tmp_path: Path) -> None:
    """A kernel without a decorator, or from a matrix, has no list."""
    cut = tuned_launch(tmp_path)
    assert not has_list(cut)
    assert not has_list(replace(cut, by_matrix=True))
