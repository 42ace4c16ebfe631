"""The other configurations of launches that fail under TO: their autotuner may still find one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from flacheck.model import Cell, canonical

# Configurations to try: of one launch, and of all. Each costs a compile, and a few tell enough.
_MOST_OF_A_LAUNCH = 12
_MOST = 96


def other_configs(failing: Iterable[Cell]) -> Mapping[str, list[Cell]]:
    """Some failing cells, by key, with the same launch in other configurations of its autotuner."""
    found: dict[str, list[Cell]] = {}
    left = _MOST
    for cell in failing:
        others = list(_others(cell))[: min(left, _MOST_OF_A_LAUNCH)]
        if others:
            found[cell.key] = others
        left -= len(others)
    return found


def _others(cell: Cell) -> Iterator[Cell]:
    """The cell in each configuration of its launch but its own."""
    if cell.launch is None:
        return
    own = canonical([cell.launch.to_json(), dict(cell.options)])
    for config in cell.configs:
        constants = config.get("kwargs", {})
        launch = cell.launch.with_constants(constants)
        options = {
            name: value for name, value in config.items() if name != "kwargs" and value is not None
        }
        if canonical([launch.to_json(), options]) != own:
            yield replace(cell, launch=launch, options=options)
