"""What a user waits for before the first result: each key that is met anew compiles every
configuration.

    first run = Σ compile seconds over the configurations · distinct keys

Seconds are this machine's, of cold compiles, without the time that the configurations then run to
be timed. `warmed` is the same with as many compilers at once as processors here, before the run;
`pruned` the same without configurations that are not worth a compile: those that fail, those that
ask for just what another one asks for (same tiles, warps, registers, shared memory and stack), and
those that spill where the same tiles on as many blocks do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from flacheck.autotune.occupancy import Occupancy
from flacheck.model import Json, Record, Verdict


class Timed(Protocol):
    """A configuration that was compiled, or failed to."""

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def record(self) -> Record: ...

    @property
    def occupancy(self) -> Occupancy | None: ...


@dataclass(frozen=True)
class Cost:
    """Seconds; `keys` distinct keys of the recorded launches; `droppable` configurations, by their
    place in the list, with why.
    """

    configs: int
    keys: int
    seconds: float
    first_run: float
    warmed: float
    workers: int
    pruned: float
    droppable: Mapping[int, str]

    def to_json(self) -> Json:
        return {
            **asdict(self),
            "droppable": {str(place): why for place, why in self.droppable.items()},
        }


def cost(configs: Sequence[Timed], keys: int, workers: int) -> Cost:
    """The cost of tuning `configs` for so many distinct keys with so many compilers at once."""
    seconds = [config.record.seconds for config in configs]
    dropped = dict(droppable(configs))
    kept = sum(second for place, second in enumerate(seconds) if place not in dropped)
    whole = sum(seconds)
    return Cost(
        configs=len(configs),
        keys=keys,
        seconds=round(whole, 3),
        first_run=round(whole * keys, 3),
        warmed=round(max(whole * keys / workers, max(seconds, default=0.0)), 3),
        workers=workers,
        pruned=round(kept * keys, 3),
        droppable=dropped,
    )


def droppable(configs: Sequence[Timed]) -> list[tuple[int, str]]:
    """Places of configurations that tuning gains nothing from."""
    found = []
    binaries: dict[tuple[Any, ...], int] = {}
    for place, config in enumerate(configs):
        if config.record.verdict is not Verdict.COMPILES:
            found.append((place, "fails"))
            continue
        first = binaries.setdefault(_binary(config), place)
        if first != place:
            found.append((place, f"asks for all that configuration {first + 1} asks for"))
        elif any(_dominates(other, config) for other in configs):
            found.append((place, "spills where the same tiles do not"))
    return found


def _binary(config: Timed) -> tuple[Any, ...]:
    held = config.record.resources
    used = tuple(held.get(name) for name in ("shared", "registers", "stack", "spills"))
    return (
        repr(sorted(config.config.get("kwargs", {}).items())),
        config.config.get("num_warps"),
        used,
    )


def _dominates(other: Timed, config: Timed) -> bool:
    if other.record.verdict is not Verdict.COMPILES or other.config.get(
        "kwargs"
    ) != config.config.get("kwargs"):
        return False
    if not config.record.resources.get("spills") or other.record.resources.get("spills") != 0:
        return False
    return bool(
        other.occupancy
        and config.occupancy
        and other.occupancy.fraction >= config.occupancy.fraction
    )
