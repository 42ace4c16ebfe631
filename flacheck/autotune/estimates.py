"""The estimated time of each configuration before it is run, to rank the configurations of one
launch by.

It is the estimate that a search for fallbacks uses (`flacheck.fallbacks.cost`: traffic, pipeline
and accumulators of a tile). `tests/gpu/check_estimate.py` compares its ranks with times measured on
a card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flacheck.autotune.trials import Trials
from flacheck.fallbacks import constants
from flacheck.fallbacks.cost import of_settings
from flacheck.inputs.expand import filled
from flacheck.model import Cell
from flacheck.packages.package import Package
from flacheck.tables import targets


def compiled(asked: Trials, place: int) -> Cell:
    """A configuration as a plain compile: what a search for fallbacks, or an estimate, is about."""
    trial = asked.configs[place]
    assert trial.launch is not None
    tried = trial.launch.configs[0]
    launch = filled(trial.launch, tried.get("kwargs", {}))
    return replace(trial, stage="compile", launch=launch, configs=asked.tuned.launch.configs)


def estimates(asked: Trials, packages: Mapping[str, Package]) -> list[float]:
    """One for each configuration, in no unit: only ratios mean something."""
    warp_size = targets.find(asked.tuned.cell.target).warp_size
    cells = [compiled(asked, place) for place in range(len(asked.configs))]
    return [
        of_settings(_settings(cell), constants(cell, packages).blocks, warp_size) for cell in cells
    ]


def _settings(cell: Cell) -> dict[str, Any]:
    """Constexprs and options by name."""
    args = cell.launch.args if cell.launch else {}
    held = {
        name: spec["constexpr"]
        for name, spec in args.items()
        if isinstance(spec, Mapping) and "constexpr" in spec
    }
    return {**held, **cell.options}
