"""The cost of a first run, and the configurations that only add to it."""

from __future__ import annotations

from pathlib import Path

from tests.made_tuned import CONFIGS, RESOURCES, call, constexpr, good, result, skipped


def test_the_cost_of_a_first_run(tmp_path: Path) -> None:
    """The cost is configurations × keys × seconds, less with more compilers."""
    calls = (call(), call(H=constexpr(8)), call(H=constexpr(16)))
    costs = result(tmp_path, good(), skipped(), good(seconds=4.0), calls=calls).cost
    assert costs is not None
    assert (costs.configs, costs.keys, costs.seconds) == (3, 3, 9.0)
    assert (costs.first_run, costs.warmed, costs.pruned) == (27.0, 6.75, 18.0)
    assert costs.droppable == {1: "fails"}


def test_what_gains_nothing_is_named(tmp_path: Path) -> None:
    """A configuration with equal resources, or with needless spills, can be dropped."""
    same = {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 3}
    spilling = {"kwargs": {"BK": 32}, "num_warps": 2, "num_stages": 2}
    spills = good(resources={**RESOURCES, "registers": 255, "stack": 8, "spills": 8})
    configs = (CONFIGS[0], same, spilling)
    costs = result(tmp_path, good(), good(), spills, configs=configs).cost
    assert costs is not None
    assert costs.droppable == {
        1: "asks for all that configuration 1 asks for",
        2: "spills where the same tiles do not",
    }


def test_spills_on_more_blocks_are_kept(tmp_path: Path) -> None:
    """A configuration that spills but has more resident blocks is kept."""
    spilling = {"kwargs": {"BK": 32}, "num_warps": 8, "num_stages": 2}
    spills = good(resources={**RESOURCES, "registers": 32, "stack": 8, "spills": 8})
    costs = result(tmp_path, good(), spills, configs=(CONFIGS[0], spilling)).cost
    assert costs is not None
    assert costs.droppable == {}
