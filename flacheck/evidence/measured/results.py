"""The document of a measurement: `flacheck.measure/1`."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from flacheck.model.wire import CellKey, JsonStruct, Natural, ToolchainName

Microseconds = Annotated[float, Meta(ge=0)]


class State(str, Enum):
    """The state of a binary's result beside those of the launch's other binaries."""

    SAME = "same"
    ROUNDING = "rounding"
    DIFFERS = "differs"
    UNSTABLE = "unstable"
    FAULTS = "faults"
    NOT_COMPARABLE = "not comparable"


class CardFacts(JsonStruct, frozen=True):
    """The GPU of a measurement, by its driver."""

    name: str
    capability: tuple[int, int]
    driver: str


class Times(JsonStruct, frozen=True):
    """The times of a launch over all rounds, in microseconds."""

    minimum: Microseconds
    median: Microseconds


class Sample(JsonStruct, frozen=True):
    """Elements of a storage where groups of equal results disagree.

    `values` are those of each group at the `places`, floats in hexadecimal form.
    """

    places: tuple[Natural, ...]
    values: tuple[tuple[str, ...], ...]


class Disagreement(JsonStruct, frozen=True):
    """The inputs of a launch whose results disagree, and elements where they do."""

    seed: Natural
    distribution: str
    tolerance: float
    samples: dict[str, Sample]


class Result(JsonStruct, frozen=True):
    """A launch in one configuration under one release.

    Results of one `group` agree. `error` is the relative error to the results that it was compared
    with, by their norm.
    """

    toolchain: ToolchainName
    key: CellKey
    config: dict[str, Any]
    state: State
    reason: str | None
    is_wrong: bool
    times: Times | None
    error: float | None
    registers: Natural | None
    stack: Natural | None
    group: Natural | None = None


class LaunchResult(JsonStruct, frozen=True):
    """A launch under every release. `spread` is the difference of two timings of one binary.

    `shapes` are those of its tensors, by the path of the argument, and `bytes` their memory.
    `judge` decided which of different results are right, if it was not the majority.
    """

    kernel: str
    package: str | None
    dtype: str | None
    by: str | None
    made_up: str | None
    operators: tuple[str, ...]
    grid: tuple[int, ...]
    bytes: Natural
    distribution: str | None
    spread: float | None
    results: tuple[Result, ...]
    disagreement: Disagreement | None = None
    judge: str | None = None
    shapes: dict[str, tuple[Natural, ...]] = field(default_factory=dict)

    @property
    def quickest(self) -> float | None:
        """The smallest median under any release, in microseconds."""
        return min((each.times.median for each in self.results if each.times), default=None)


class Ratio(JsonStruct, frozen=True):
    """The time of a kernel's launch or an operator under a release, and its ratio to the first."""

    name: str
    dtype: str | None
    toolchain: ToolchainName
    microseconds: Microseconds
    ratio: float
    spread: float
    change: Literal["slower", "faster", "equal"]
    config: dict[str, Any] | None = None


class ReleaseSummary(JsonStruct, frozen=True):
    """A release beside the first one: counts, the geometric mean of ratios, the ratio of totals."""

    toolchain: ToolchainName
    kernels: Natural
    slower: Natural
    faster: Natural
    operators: Natural
    slower_operators: Natural
    geometric_mean: float | None
    total: float | None
    states: dict[str, Natural]
    wrong: Natural


class MeasureDocument(JsonStruct, frozen=True):
    """A measurement on one GPU. The first of the `toolchains` is the one compared with."""

    schema: Literal["flacheck.measure/1"]
    about: str
    target: str
    card: CardFacts
    date: str
    toolchains: tuple[ToolchainName, ...]
    launches: tuple[LaunchResult, ...]
    kernels: tuple[Ratio, ...]
    operators: tuple[Ratio, ...]
    summaries: tuple[ReleaseSummary, ...]
    left_out: dict[str, str]

    @property
    def wrong(self) -> list[tuple[LaunchResult, Result]]:
        """The wrong results with their launches."""
        pairs = []
        for launch in self.launches:
            for result in launch.results:
                if result.is_wrong:
                    pairs.append((launch, result))
        return pairs
