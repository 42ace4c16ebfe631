"""What a user waits for before the first result: each key that is met anew compiles every
configuration.

    first run = Σ compile seconds over the configurations · distinct keys

Seconds are this machine's, of cold compiles, without the time that the configurations then run to
be timed. `warmed` is the same with as many compilers at once as processors here, before the run;
`pruned` the same without configurations that are not worth a compile: those that fail, those that
ask for just what another one asks for (same tiles, warps, registers, shared memory and stack), and
those that spill where the same tiles on as many blocks do not.
"""

from collections.abc import Sequence
from typing import Any

from flacheck.capabilities.autotune.results import Cost, ExaminedConfig
from flacheck.model import canonical


def cost(configs: Sequence[ExaminedConfig], keys: int, workers: int) -> Cost:
    """The cost of tuning `configs` for so many distinct keys with so many compilers at once."""
    seconds = [config.record.seconds for config in configs]
    dropped = droppable(configs)
    kept = sum(second for place, second in enumerate(seconds) if place not in dropped)
    whole = sum(seconds)
    # However many compilers there are, the slowest configuration is waited for.
    slowest = max(seconds, default=0.0)
    return Cost(
        configs=len(configs),
        keys=keys,
        seconds=round(whole, 3),
        first_run=round(whole * keys, 3),
        warmed=round(max(whole * keys / workers, slowest), 3),
        workers=workers,
        pruned=round(kept * keys, 3),
        droppable=dropped,
    )


def droppable(configs: Sequence[ExaminedConfig]) -> dict[int, str]:
    """Places of configurations that tuning gains nothing from, with the reason."""
    dropped: dict[int, str] = {}
    first_of: dict[str, int] = {}
    for place, config in enumerate(configs):
        if not config.compiles:
            dropped[place] = "fails"
            continue
        # Two that ask for the same of the card are one binary.
        held = config.record.resources
        used = [held.get(name) for name in ("shared", "registers", "stack", "spills")]
        demand = canonical([_tiles(config), config.config.get("num_warps"), used])
        first = first_of.setdefault(demand, place)
        if first != place:
            dropped[place] = f"asks for all that configuration {first + 1} asks for"
        elif any(_dominates(other, config) for other in configs):
            dropped[place] = "spills where the same tiles do not"
    return dropped


def _tiles(config: ExaminedConfig) -> Any:
    return config.config.get("kwargs", {})


def _dominates(other: ExaminedConfig, config: ExaminedConfig) -> bool:
    """Whether the other one, on as many blocks or more, does not spill what this one spills."""
    if not other.compiles or _tiles(other) != _tiles(config):
        return False
    # None means that the assembler did not say: no spills are then known of either.
    if not config.record.resources.get("spills") or other.record.resources.get("spills") != 0:
        return False
    if not (other.occupancy and config.occupancy):
        return False
    return other.occupancy.fraction >= config.occupancy.fraction
