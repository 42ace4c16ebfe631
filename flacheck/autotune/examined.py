"""The nouns of an examination: a tuned kernel, what its autotuner makes of each configuration,
faults of its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.autotune.cost import Cost
from flacheck.autotune.declared import Declared
from flacheck.autotune.occupancy import Occupancy
from flacheck.fallbacks.host_code import HostLaunch
from flacheck.fallbacks.kernel_code import KernelCode
from flacheck.inputs.launches import RecordedLaunch
from flacheck.model import Cell, Json, Launch, Record, Verdict

Args = Mapping[str, Any]


class Fate(str, Enum):
    """What the release's own autotuner makes of a configuration."""

    RUNS = "runs"
    SKIPPED = "skipped"
    ENDS_RUN = "ends_run"


@dataclass(frozen=True)
class Tuned:
    """A launch of an autotuned kernel under one toolchain on one target.

    `cell` is the whole autotuner run (stage `autotune`, all configurations in its launch); `seen`
    the arguments of every recorded launch of the kernel there, heuristics resolved, those whose
    sizes a `driver` chose or not; `declared` the source, where it is at hand; `by_matrix` says that
    a matrix wrote the launch down; `code` is what the kernel does with its parameters, `hosts` the
    places in the package that launch it; `recorded` is the launch as a program made it, where one
    did.
    """

    cell: Cell
    options: Mapping[str, Any]
    seen: tuple[Args, ...]
    driven: bool
    declared: Declared | None
    by_matrix: bool = False
    code: KernelCode = field(default_factory=KernelCode)
    hosts: tuple[HostLaunch, ...] = ()
    recorded: RecordedLaunch | None = None

    @property
    def launch(self) -> Launch:
        assert self.cell.launch is not None
        return self.cell.launch

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys as the source spells them: a release may have dropped those that are no
        arguments.
        """
        written = tuple(name for name, _ in self.declared.keys) if self.declared else ()
        return written or self.launch.keys


@dataclass(frozen=True)
class Timing:
    """Measured on a card: `median` milliseconds of a launch, a fifth of the launches below `low`
    and above `high`; `warm_up` seconds of the first one with its compile; the largest relative
    `error` of what it wrote against the launch's first configuration (after one that took its
    worker along, the first since), None where made-up inputs led to no number. All None where it
    could not be timed, with `failed`, why.
    """

    median: float | None
    low: float | None
    high: float | None
    warm_up: float | None
    error: float | None
    failed: str | None = None

    def to_json(self) -> Json:
        names = {
            "median_ms": self.median,
            "low_ms": self.low,
            "high_ms": self.high,
            "warm_up_s": self.warm_up,
        }
        return {**names, "error": self.error, "failed": self.failed}


@dataclass(frozen=True)
class Price:
    """What a fallback takes on a card, in milliseconds and as a multiple of the best configuration."""

    use: Mapping[str, Any]
    median: float | None
    times_best: float | None

    def to_json(self) -> Json:
        return {"use": dict(self.use), "median_ms": self.median, "times_best": self.times_best}


@dataclass(frozen=True)
class Examined:
    """A configuration with what became of it; `fate` is None where nothing is known of it.
    `estimate` ranks it among those of its launch, the least first.
    """

    config: Mapping[str, Any]
    record: Record
    occupancy: Occupancy | None
    fate: Fate | None
    estimate: float
    timing: Timing | None = None

    @property
    def compiles(self) -> bool:
        return self.record.verdict is Verdict.COMPILES

    def to_json(self) -> Json:
        held = self.occupancy
        return {
            "config": dict(self.config),
            "verdict": self.record.verdict.value,
            "code": self.record.code,
            "outcome": self.fate.value if self.fate else None,
            "resources": dict(self.record.resources),
            "occupancy": round(held.fraction, 4) if held else None,
            "blocks": held.blocks if held else None,
            "limited_by": held.limit if held else None,
            "estimate": round(self.estimate, 5),
            "timing": self.timing.to_json() if self.timing else None,
            "seconds": self.record.seconds,
            "reason": self.record.reason,
            "message": self.record.message,
        }


@dataclass(frozen=True)
class KeyFault:
    """`want` is what should stand in the key, `got` what does (None for nothing); `fix` the lines
    to write in place of `line` to `end_line` of `file`; `why` one sentence.
    """

    key: str
    fault: str
    want: str | None
    got: str | None
    why: str
    file: str | None = None
    line: int | None = None
    end_line: int | None = None
    fix: str = ""

    def to_json(self) -> Json:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Result:
    """What the autotuner of a kernel does under one toolchain on one target. `ends` says why the
    whole run ends, None when it does not; `pruned` are configurations that the kernel itself leaves
    out; `unkeyed` constexprs that no key covers, in which no harm is seen; `tuning_keys` the
    distinct keys that calls of this dtype had, as values and tensors' dtypes. With a card `prices`
    are those of the fallbacks, and `rank` is Spearman's correlation of the estimates with the
    times; `not_timed` says why a card that was asked timed nothing.
    """

    kernel: str
    package: str | None
    toolchain: str
    target: str
    dtype: str | None
    launch: Mapping[str, Any] | None
    configs: Sequence[Examined]
    keys: Sequence[KeyFault]
    cost: Cost | None
    ends: str | None = None
    pruned: Sequence[Mapping[str, Any]] = ()
    unkeyed: Sequence[str] = ()
    fallbacks: Sequence[Fallback] = field(default_factory=tuple)
    tuning_keys: Sequence[tuple[Sequence[Any], Sequence[str]]] = ()
    prices: Sequence[Price] = ()
    rank: float | None = None
    not_timed: str | None = None

    @property
    def is_finding(self) -> bool:
        """Whether it makes the command exit 1: something ends a run, or a key is at fault."""
        return bool(
            self.ends or self.keys or any(config.fate is Fate.ENDS_RUN for config in self.configs)
        )

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to say: no launch is known of, and no fault was found."""
        return not (self.configs or self.keys or self.ends)

    def to_json(self) -> Json:
        return {
            "kernel": self.kernel,
            "package": self.package,
            "toolchain": self.toolchain,
            "target": self.target,
            "dtype": self.dtype,
            "launch": self.launch,
            "configs": [config.to_json() for config in self.configs],
            "keys": [fault.to_json() for fault in self.keys],
            "cost": self.cost.to_json() if self.cost else None,
            "ends": self.ends,
            "pruned": [dict(config) for config in self.pruned],
            "unkeyed": list(self.unkeyed),
            "fallbacks": [fallback.to_json() for fallback in self.fallbacks],
            "prices": [price.to_json() for price in self.prices],
            "rank": self.rank,
            "not_timed": self.not_timed,
        }
