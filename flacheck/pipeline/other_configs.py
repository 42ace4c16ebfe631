"""Other configurations of failing launches, because an autotuner may use them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from flacheck.model import Cell

# The most configurations to try of one launch, and of all; each takes a compile.
_MOST_OF_A_LAUNCH = 12
_MOST = 96


def other_configs(failing: Iterable[Cell]) -> Mapping[str, list[Cell]]:
    """Return other configurations of failing cells, by the cells' keys."""
    by_key: dict[str, list[Cell]] = {}
    budget = _MOST
    for cell in failing:
        others = list(_others(cell))[: min(budget, _MOST_OF_A_LAUNCH)]
        if others:
            by_key[cell.key] = others
        budget -= len(others)
    return by_key


def _others(cell: Cell) -> Iterator[Cell]:
    """Yield the cell in each other configuration of its launch."""
    if cell.launch is None:
        return
    own = cell.identity(without=())
    for config in cell.configs:
        constants = config.get("kwargs", {})
        launch = cell.launch.with_constants(constants)
        options = {}
        for name, value in config.items():
            if name != "kwargs" and value is not None:
                options[name] = value
        other = replace(cell, launch=launch, options=options)
        if other.identity(without=()) != own:
            yield other
