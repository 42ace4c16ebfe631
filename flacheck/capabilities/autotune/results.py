"""The data of an examination: launches, configurations, faults of keys, and results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

from msgspec import Meta

from flacheck.capabilities.autotune.occupancy import Occupancy
from flacheck.evidence.analysis.fallbacks import Fallback, ReportedFallback
from flacheck.evidence.analysis.order import count_noun, kernel_name
from flacheck.model import Cell, Launch, Record, Verdict, canonical
from flacheck.model.wire import Code, Count, JsonStruct, Natural, NotEmpty, Seconds
from flacheck.source.autotuners import AutotunedKernel
from flacheck.source.host_code import HostLaunch
from flacheck.source.kernel_code import KernelCode
from flacheck.subjects.inputs.launches import RecordedLaunch

Args = Mapping[str, Any]
# A configuration; `kwargs` are the tuned constexprs.
_Config = Annotated[
    Mapping[str, Any],
    Meta(extra_json_schema={"required": ["kwargs"], "properties": {"kwargs": {"type": "object"}}}),
]


class Fate(str, Enum):
    """The effect of a configuration in the release's own autotuner."""

    RUNS = "runs"
    # It gets an infinite time, and the autotuner tries the next one.
    SKIPPED = "skipped"
    # Its error leaves `Autotuner.run`, even if other configurations would run.
    ENDS_RUN = "ends_run"


@dataclass(frozen=True)
class TunedLaunch:
    """A launch of an autotuned kernel under one toolchain on one target.

    Attributes:
        cell: The whole autotuner run (stage `autotune`), with all configurations in its launch.
        options: The options that every trial has.
        observed_calls: The arguments of every recorded launch of the kernel there, those of its
            heuristics among them.
        is_captured: True if a driver chose the sizes of the calls.
        declaration: The source; None if it is not available.
        by_matrix: True if the launch is from a matrix.
        code: How the kernel uses its parameters.
        hosts: The places in the package that launch the kernel.
        recorded_launch: The launch of a program; None if it was not recorded.
        equivalent_calls: The calls that compile to the same binary as this launch.
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
        """The launch of the cell."""
        assert self.cell.launch is not None
        return self.cell.launch

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys as in the source, else as in the launch."""
        # A release may drop keys that are not arguments before the launch is recorded.
        if self.declaration and self.declaration.keys:
            names, _ = zip(*self.declaration.keys)
            return tuple(names)
        return self.launch.keys


class Timing(JsonStruct, frozen=True):
    """The measurement of a configuration on a GPU.

    Attributes:
        median_ms: The median of a launch in milliseconds.
        low_ms: A fifth of the launches took less.
        high_ms: A fifth of the launches took more.
        error: The relative error of the results against those of the first configuration, by their
            norm; None if they were not compared.
        failed: The reason why the configuration could not be timed; all else is None then.
    """

    median_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    error: float | None = None
    failed: str | None = None


class Price(JsonStruct, frozen=True):
    """The time of a fallback in milliseconds, and as a multiple of the best configuration's."""

    use: Mapping[str, Any]
    median_ms: float | None
    times_best: float | None


class ConfigResources(JsonStruct, frozen=True):
    """Bytes of shared memory, its limit, registers a thread, bytes of stack and of spills."""

    shared: Natural | None
    shared_limit: Natural | None
    registers: Natural | None
    stack: Natural | None
    spills: Natural | None


class ExaminedDocument(JsonStruct, frozen=True):
    """A configuration, its record, and its outcome in the release's own `Autotuner.run`.

    `key` is that of the stored cell (`flacheck repro KEY`). `occupancy` is the share of the warps
    of a multiprocessor that `blocks` blocks fill; `estimate` has no unit and ranks the
    configurations of a launch, the least first; `timing` was measured on a card with --bench.
    """

    key: str
    config: _Config
    verdict: Verdict
    code: Code | None
    outcome: Fate | None
    resources: ConfigResources
    occupancy: Annotated[float, Meta(ge=0, le=1)] | None
    blocks: Natural | None
    limited_by: Annotated[str, Meta(pattern="^(blocks|warps|shared memory|registers)$")] | None
    estimate: float
    timing: Timing | None
    seconds: Seconds
    reason: str | None
    message: str


@dataclass(frozen=True)
class ExaminedConfig:
    """A configuration with its record and outcome.

    `fate` is None without a verdict; `estimate` ranks the configurations of a launch, the fastest
    first.
    """

    config: Mapping[str, Any]
    record: Record
    occupancy: Occupancy | None
    fate: Fate | None
    estimate: float
    timing: Timing | None = None

    @property
    def compiles(self) -> bool:
        """True if the configuration compiles."""
        return self.record.verdict is Verdict.COMPILES

    def document(self) -> ExaminedDocument:
        """Return the configuration in the form of flacheck.autotune/1."""
        occupancy, blocks, limit = None, None, None
        if self.occupancy:
            occupancy = round(self.occupancy.fraction, 4)
            blocks, limit = self.occupancy.blocks, self.occupancy.limit
        resources = {}
        for name in ConfigResources.__struct_fields__:
            resources[name] = self.record.resources.get(name)
        return ExaminedDocument.from_value(
            self.record,
            config=self.config,
            outcome=self.fate,
            resources=ConfigResources(**resources),
            occupancy=occupancy,
            blocks=blocks,
            limited_by=limit,
            estimate=round(self.estimate, 5),
            timing=self.timing,
        )


class KeyFault(JsonStruct, frozen=True):
    """A fault of a key.

    Attributes:
        key: The key, or the argument that should be one.
        fault: The name of the fault.
        want: The argument that the key should be.
        got: The argument that it is; None if it is missing.
        why: The fault in one sentence.
        file: The file to edit, relative to the folder that the package is imported from.
        line, end_line: The lines to replace.
        fix: The new lines.
    """

    key: str
    fault: Annotated[str, Meta(pattern="^(no-argument|past-end|shifted|constant|missing|storm)$")]
    want: str | None
    got: str | None
    why: NotEmpty
    file: str | None = None
    line: Count | None = None
    end_line: Count | None = None
    fix: NotEmpty = ""


@dataclass(frozen=True)
class TuningKey:
    """One key of an autotuner.

    `values` are the names of its arguments with their values, `dtypes` those of the tensors in the
    order in which the host code passes them.
    """

    values: tuple[tuple[str, Any], ...]
    dtypes: tuple[str, ...]

    def __str__(self) -> str:
        sizes = [f"{name}={value}" for name, value in self.values]
        return " ".join([*sizes, *dict.fromkeys(self.dtypes)])


class TunerDocument(JsonStruct, frozen=True):
    """The behaviour of a kernel's autotuner under one toolchain on one target.

    `launch` is null if not even the module can be imported. `ends` is the reason why every run
    fails, `pruned` are the configurations that the kernel leaves out itself, `unkeyed` the
    constexprs in no key without a fault. With --bench, `prices` are the times of the fallbacks,
    `rank` is Spearman's correlation of the estimates with the times, and `not_timed` the reason why
    nothing was timed.
    """

    kernel: str
    package: str | None
    toolchain: str
    target: str
    dtype: str | None
    launch: Mapping[str, Any] | None
    configs: tuple[ExaminedDocument, ...]
    keys: tuple[KeyFault, ...]
    ends: str | None
    pruned: tuple[_Config, ...]
    unkeyed: tuple[str, ...]
    fallbacks: tuple[ReportedFallback, ...]
    prices: tuple[Price, ...]
    rank: Annotated[float, Meta(ge=-1, le=1)] | None
    not_timed: str | None


class AutotuneDocument(JsonStruct, frozen=True):
    """The effect of each configuration and key in a release's own autotuner.

    `kernel` is the glob or the launches file of the command.
    """

    schema: Literal["flacheck.autotune/1"]
    kernel: str
    results: tuple[TunerDocument, ...]


@dataclass(frozen=True)
class TunerResult:
    """The behaviour of a kernel's autotuner under one toolchain on one target.

    Attributes:
        kernel, package, toolchain, target, dtype: The place of the launch.
        launch: The launch as JSON; None without a configuration.
        configs: The configurations with their outcome.
        keys: The faults of the keys.
        ends: The reason why every run fails; None if a run succeeds.
        pruned: The configurations that the kernel prunes itself.
        unkeyed: The constexprs in no key, without a fault.
        fallbacks: The settings that compile in place of failing ones.
        tuning_keys: The distinct keys of the calls that the launch stands for.
        prices: The times of the fallbacks, with `--bench`.
        rank: Spearman's correlation of the estimates with the times.
        not_timed: The reason why `--bench` timed nothing.
    """

    kernel: str
    package: str | None
    toolchain: str
    target: str
    dtype: str | None
    launch: Mapping[str, Any] | None
    configs: Sequence[ExaminedConfig]
    keys: Sequence[KeyFault]
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
        """The arguments of the launch as a text, to compare calls by."""
        return canonical((self.launch or {}).get("args"))

    @property
    def findings(self) -> list[str]:
        """The reasons for exit code 1: what ends a run, and the faults of keys."""
        place = f"{kernel_name(self.kernel)} under {self.toolchain} on {self.target}"
        lines = []
        ending = sum(each.fate is Fate.ENDS_RUN for each in self.configs)
        if self.ends:
            lines.append(f"{place}: the run ends: {self.ends}")
        elif ending:
            lines.append(f"{place}: {count_noun(ending, 'configuration')} would end the run")
        for fault in self.keys:
            lines.append(f"{place}: {fault.fault}: {fault.key} {fault.why}")
        return lines

    @property
    def is_finding(self) -> bool:
        """True if the command exits with 1."""
        return bool(self.findings)

    @property
    def is_silent(self) -> bool:
        """True without a launch and without a fault."""
        return not (self.configs or self.keys or self.ends)

    def document(self) -> TunerDocument:
        """Return the result in the form of flacheck.autotune/1."""
        return TunerDocument.from_value(
            self,
            configs=tuple(config.document() for config in self.configs),
            fallbacks=tuple(fallback.reported() for fallback in self.fallbacks),
        )
