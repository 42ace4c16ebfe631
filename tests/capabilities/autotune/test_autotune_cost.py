"""What the first run waits for, and which configurations it waits for in vain."""

from __future__ import annotations

from pathlib import Path

from flacheck.capabilities.autotune.cost import cost
from tests.made_tuned import CONFIGS, RESOURCES, call, constexpr, good, result, skipped


def test_the_cost_of_a_first_run(tmp_path: Path) -> None:
    """Configurations × keys × seconds; several compilers or fewer configurations take less."""
    calls = (call(), call(H=constexpr(8)), call(H=constexpr(16)))
    found = result(tmp_path, good(), skipped(), good(seconds=4.0), calls=calls).cost
    assert found is not None
    assert (found.configs, found.keys, found.seconds) == (3, 3, 9.0)
    assert (found.first_run, found.warmed, found.pruned) == (27.0, 6.75, 18.0)
    assert found.droppable == {1: "fails"}


def test_nothing_costs_nothing() -> None:
    """An empty list is compiled at once."""
    assert cost([], 1, 4).first_run == 0


def test_what_gains_nothing_is_named(tmp_path: Path) -> None:
    """The same resources with other stages; spills where the same tiles on as many blocks have
    none.
    """
    same = {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 3}
    spilling = {"kwargs": {"BK": 32}, "num_warps": 2, "num_stages": 2}
    spills = good(resources={**RESOURCES, "registers": 255, "stack": 8, "spills": 8})
    configs = (CONFIGS[0], same, spilling)
    found = result(tmp_path, good(), good(), spills, configs=configs).cost
    assert found is not None
    assert found.droppable == {
        1: "asks for all that configuration 1 asks for",
        2: "spills where the same tiles do not",
    }


def test_spills_on_more_blocks_are_kept(tmp_path: Path) -> None:
    """What spills, and still fills the multiprocessor better, may be the fastest."""
    spilling = {"kwargs": {"BK": 32}, "num_warps": 8, "num_stages": 2}
    spills = good(resources={**RESOURCES, "registers": 32, "stack": 8, "spills": 8})
    found = result(tmp_path, good(), spills, configs=(CONFIGS[0], spilling)).cost
    assert found is not None
    assert found.droppable == {}
