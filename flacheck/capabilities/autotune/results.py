"""The nouns of an examination: a tuned kernel, its configurations, faults of its keys."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.order import count_noun, kernel_name
from flacheck.capabilities.autotune.occupancy import Occupancy
from flacheck.inputs.launches import RecordedLaunch
from flacheck.model import Cell, Json, Launch, Record, Verdict, canonical
from flacheck.source.autotuners import AutotunedKernel
from flacheck.source.host_code import HostLaunch
from flacheck.source.kernel_code import KernelCode

Args = Mapping[str, Any]


class Fate(str, Enum):
    """What the release's own autotuner makes of a configuration."""

    RUNS = "runs"
    # It gets an infinite time, and the next one is tried.
    SKIPPED = "skipped"
    # Its error leaves `Autotuner.run`, whatever the other configurations would do.
    ENDS_RUN = "ends_run"


@dataclass(frozen=True)
class TunedLaunch:
    """A launch of an autotuned kernel under one toolchain on one target.

    `cell` is the whole autotuner run (stage `autotune`, all configurations in its launch); `observed_calls`
    the arguments of every recorded launch of the kernel there, heuristics resolved, those whose
    sizes a `driver` chose or not; `declaration` the source, where it is at hand; `by_matrix` says that
    a matrix wrote the launch down; `code` is what the kernel does with its parameters, `hosts` the
    places in the package that launch it; `recorded_launch` is the launch as a program made it, where one
    did; `equivalent_calls` the calls that this launch stands for, because they compile to the same binary.
    """

    cell: Cell
    options: Mapping[str, Any]
    observed_calls: tuple[Args, ...]
    is_captured: bool
    declaration: AutotunedKernel | None
    by_matrix: bool = False
    code: KernelCode = field(default_factory=KernelCode)
    hosts: tuple[HostLaunch, ...] = ()
    recorded_launch: RecordedLaunch | None = None
    equivalent_calls: tuple[Args, ...] = ()

    @property
    def launch(self) -> Launch:
        assert self.cell.launch is not None
        return self.cell.launch

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys as the source spells them, else as they were recorded."""
        # A release may have dropped keys that are no arguments before anything was recorded.
        if self.declaration and self.declaration.keys:
            return tuple(name for name, _ in self.declaration.keys)
        return self.launch.keys


@dataclass(frozen=True)
class Timing:
    """Measured on a card: `median_ms` milliseconds of a launch, a fifth of the launches below
    `low_ms` and above `high_ms`; `warm_up_s` seconds of the first one with its compile.

    `error` is the largest relative error of what it wrote against the launch's first configuration
    (or against the first since a configuration took its worker along); None where invented inputs
    led to no number. A configuration that could not be timed has `failed`, the reason, only.
    """

    median_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    warm_up_s: float | None = None
    error: float | None = None
    failed: str | None = None


@dataclass(frozen=True)
class Price:
    """What a fallback takes on a card: milliseconds, and a multiple of the best configuration."""

    use: Mapping[str, Any]
    median_ms: float | None
    times_best: float | None


@dataclass(frozen=True)
class ExaminedConfig:
    """A configuration with what became of it; `fate` is None where nothing is known of it.
    `estimate` ranks it among those of its launch, the least first."""

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
        filled: Json = {"occupancy": None, "blocks": None, "limited_by": None}
        if self.occupancy:
            filled["occupancy"] = round(self.occupancy.fraction, 4)
            filled["blocks"] = self.occupancy.blocks
            filled["limited_by"] = self.occupancy.limit
        return {
            "key": self.record.key,
            "config": dict(self.config),
            "verdict": self.record.verdict.value,
            "code": self.record.code,
            "outcome": self.fate and self.fate.value,
            "resources": dict(self.record.resources),
            **filled,
            "estimate": round(self.estimate, 5),
            "timing": self.timing and asdict(self.timing),
            "seconds": self.record.seconds,
            "reason": self.record.reason,
            "message": self.record.message,
        }


@dataclass(frozen=True)
class Cost:
    """Seconds of compiling before the first result, see `flacheck.capabilities.autotune.cost`.

    `keys` counts the distinct keys of the recorded launches; `droppable` names configurations that
    tuning gains nothing from, by their place in the list from 0, with the reason.
    """

    configs: int
    keys: int
    seconds: float
    first_run: float
    warmed: float
    workers: int
    pruned: float
    droppable: Mapping[int, str]


@dataclass(frozen=True)
class KeyFault:
    """`want` is what should stand in the key, `got` what does (None for nothing); `fix` the lines
    to write in place of `line` to `end_line` of `file`; `why` one sentence."""

    key: str
    fault: str
    want: str | None
    got: str | None
    why: str
    file: str | None = None
    line: int | None = None
    end_line: int | None = None
    fix: str = ""


@dataclass(frozen=True)
class TuningKey:
    """One key of an autotuner: its keys' names with their values, and the tensors' dtypes in the
    order in which the host code passes them."""

    values: tuple[tuple[str, Any], ...]
    dtypes: tuple[str, ...]

    def __str__(self) -> str:
        named = [f"{name}={value}" for name, value in self.values]
        return " ".join([*named, *dict.fromkeys(self.dtypes)])


@dataclass(frozen=True)
class TunerResult:
    """What the autotuner of a kernel does under one toolchain on one target.

    `ends` says why the whole run ends, None when it does not; `pruned` are configurations that the
    kernel itself leaves out; `unkeyed` constexprs that no key covers, in which no harm is seen;
    `tuning_keys` the distinct keys of the calls that the launch stands for.
    With a card `prices` are those of the fallbacks, and `rank` is Spearman's correlation of the
    estimates with the times; `not_timed` says why a card that was asked timed nothing.
    """

    kernel: str
    package: str | None
    toolchain: str
    target: str
    dtype: str | None
    launch: Mapping[str, Any] | None
    configs: Sequence[ExaminedConfig]
    keys: Sequence[KeyFault]
    cost: Cost | None
    ends: str | None = None
    pruned: Sequence[Mapping[str, Any]] = ()
    unkeyed: Sequence[str] = ()
    fallbacks: Sequence[Fallback] = ()
    tuning_keys: Sequence[TuningKey] = ()
    prices: Sequence[Price] = ()
    rank: float | None = None
    not_timed: str | None = None

    @property
    def call(self) -> str:
        """The arguments of the launch, as text that is equal for the same call elsewhere."""
        return canonical((self.launch or {}).get("args"))

    @property
    def findings(self) -> list[str]:
        """The reasons for exit code 1: what ends a run, and the faults of keys."""
        place = f"{kernel_name(self.kernel)} under {self.toolchain} on {self.target}"
        lines = []
        ending = [each for each in self.configs if each.fate is Fate.ENDS_RUN]
        if self.ends:
            lines.append(f"{place}: the run ends: {self.ends}")
        elif ending:
            lines.append(f"{place}: {count_noun(len(ending), 'configuration')} would end the run")
        for fault in self.keys:
            lines.append(f"{place}: {fault.fault}: {fault.key} {fault.why}")
        return lines

    @property
    def is_finding(self) -> bool:
        """Return True if it makes the command exit 1."""
        return bool(self.findings)

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to say: no launch is known of, and no fault was found."""
        return not (self.configs or self.keys or self.ends)

    def to_json(self) -> Json:
        """A result of `flacheck.autotune/1`, its fields in the order in which they stand here."""
        shown = {each.name: getattr(self, each.name) for each in fields(self)}
        # Only for `--emit fla`.
        del shown["tuning_keys"]
        shown["configs"] = [config.to_json() for config in self.configs]
        shown["keys"] = [asdict(fault) for fault in self.keys]
        shown["cost"] = self.cost and asdict(self.cost)
        shown["fallbacks"] = [fallback.to_json() for fallback in self.fallbacks]
        shown["prices"] = [asdict(price) for price in self.prices]
        return shown
