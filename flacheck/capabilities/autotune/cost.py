"""The time that tuning takes before the first result: every key compiles every configuration.

    first run = Σ compile seconds over the configurations · distinct keys

Seconds are for cold compiles on this machine, without the runs that time the configurations.
`warmed` is the time of the same compiles before the run, in parallel on all processors of this
machine. `pruned` leaves out configurations that fail, that need the same resources as another one
(tiles, warps, registers, shared memory and stack), or that spill while the same tiles on as many
blocks do not.
"""

from collections.abc import Sequence
from typing import Any

from flacheck.capabilities.autotune.results import Cost, ExaminedConfig
from flacheck.model import canonical


def cost(configs: Sequence[ExaminedConfig], keys: int, workers: int) -> Cost:
    """Return the cost of tuning configurations for a number of keys with `workers` compilers."""
    seconds = [config.record.seconds for config in configs]
    without_gain = droppable(configs)
    useful: float = 0
    for index, config_seconds in enumerate(seconds):
        if index not in without_gain:
            useful += config_seconds
    total = sum(seconds)
    # The slowest configuration bounds the time, however many compilers there are.
    slowest = max(seconds, default=0.0)
    return Cost(
        configs=len(configs),
        keys=keys,
        seconds=round(total, 3),
        first_run=round(total * keys, 3),
        warmed=round(max(total * keys / workers, slowest), 3),
        workers=workers,
        pruned=round(useful * keys, 3),
        droppable=without_gain,
    )


def droppable(configs: Sequence[ExaminedConfig]) -> dict[int, str]:
    """Return the indexes of configurations that tuning gains nothing from, with the reason."""
    reasons: dict[int, str] = {}
    first_of: dict[str, int] = {}
    for index, config in enumerate(configs):
        if not config.compiles:
            reasons[index] = "fails"
            continue
        # Two configurations that need the same resources are one binary.
        resources = config.record.resources
        amounts = [resources.get(name) for name in ("shared", "registers", "stack", "spills")]
        demand = canonical([_tiles(config), config.config.get("num_warps"), amounts])
        first = first_of.setdefault(demand, index)
        if first != index:
            reasons[index] = f"asks for all that configuration {first + 1} asks for"
        elif any(_dominates(other, config) for other in configs):
            reasons[index] = "spills where the same tiles do not"
    return reasons


def _tiles(config: ExaminedConfig) -> Any:
    return config.config.get("kwargs", {})


def _dominates(other: ExaminedConfig, config: ExaminedConfig) -> bool:
    """Return True if only `config` spills, and `other` has the same tiles on as many blocks."""
    if not other.compiles or _tiles(other) != _tiles(config):
        return False
    # None means that the assembler printed no count, so the spills are unknown.
    if not config.record.resources.get("spills") or other.record.resources.get("spills") != 0:
        return False
    if not (other.occupancy and config.occupancy):
        return False
    return other.occupancy.fraction >= config.occupancy.fraction
