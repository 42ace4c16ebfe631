"""The timing of compiling configurations on this machine's GPU (`--bench`).

Each release's own binaries of a recorded launch run side by side, on the same inputs.
"""

from __future__ import annotations

import statistics
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flacheck.capabilities.autotune.emit import configuration
from flacheck.capabilities.autotune.results import (
    ExaminedConfig,
    Fate,
    Price,
    Timing,
    TunedLaunch,
    TunerResult,
)
from flacheck.capabilities.autotune.trials import Trials
from flacheck.engine.card_runner import CardRunner
from flacheck.evidence.measured.results import Result, State
from flacheck.model import Cell, Json, Record, canonical
from flacheck.pipeline.events import Event, RecordSettled
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.measurement.collecting import bundled_launch, unknown_integers, variants_of
from flacheck.pipeline.measurement.judging import judge_launch
from flacheck.pipeline.measurement.launches import MeasuredLaunch
from flacheck.pipeline.measurement.running import Findings, run_launch
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.store import Store

_SEED = 0
_INTERRUPT = "interrupted"
_DECLARED = (
    "its launch was declared, not recorded, and so its tensors have no sizes: record a program "
    "with `flacheck capture`, and name the file with --launches"
)
_WITHOUT_SIZES = "the launches file lacks the sizes of its tensors: record it again"
_WITHOUT_GRID = "its grid was not recorded"
_Config = Mapping[str, Any]


@dataclass
class TimedResult:
    """A result with the cells of its configurations and fallbacks, or why it is not timed."""

    result: TunerResult
    launch: MeasuredLaunch | None = None
    # Each fallback as its settings and the configuration that they make.
    fallbacks: list[tuple[Mapping[str, Any], _Config]] = field(default_factory=list)
    failures: dict[str, Timing] = field(default_factory=dict)
    reason: str | None = None


def timed_cells(result: TunerResult, trials: Trials, target: str) -> TimedResult:
    """Return the cells to time; `target` is that of the GPU."""
    tuned_launch = trials.tuned_launch
    recorded = tuned_launch.recorded_launch
    if result.target != target:
        return TimedResult(result, reason=f"the GPU that is here is {target}")
    if recorded is None:
        return TimedResult(result, reason=_DECLARED)
    if recorded.memory is None:
        return TimedResult(result, reason=_WITHOUT_SIZES)
    timed = TimedResult(result, MeasuredLaunch(recorded, ()))
    configs = [each.config for each in result.configs if each.fate is Fate.RUNS]
    for fallback in result.fallbacks:
        config = configuration(result, fallback)
        if config is not None:
            timed.fallbacks.append((fallback.use, config))
            configs.append(config)
    assert timed.launch is not None
    for config in {canonical(each): each for each in configs}.values():
        grid = grid_of(tuned_launch, config)
        if grid is None:
            timed.failures[canonical(config)] = Timing(failed=_WITHOUT_GRID)
        else:
            timed.launch.cells.append((trials.compile_of(config), config, grid))
    if not configs:
        timed.reason = "none of its configurations runs"
    timed.reason = timed.reason or unknown_integers(bundled_launch(timed.launch, ()).tensors)
    return timed


def grid_of(tuned_launch: TunedLaunch, config: _Config) -> tuple[int, ...] | None:
    """Return the grid of a recorded configuration with equal constants, which decide the grid."""
    recorded = tuned_launch.recorded_launch
    assert recorded is not None
    same = []
    same_constants = []
    for other, grid in zip(recorded.launch.configs, recorded.grids or ()):
        if all(config.get(name) == value for name, value in other.items()):
            same.append(grid)
        if other.get("kwargs") == config.get("kwargs"):
            same_constants.append(grid)
    grids = [*same, *same_constants]
    return tuple(grids[0]) if grids and grids[0] else None


def compile_binaries(
    all_timed: Sequence[TimedResult], plan: Plan, store: Store, options: RunOptions
) -> Generator[Event, None, dict[str, Record]]:
    """Compile the cells that have no binary yet; return their records by key."""
    cells: dict[str, Cell] = {}
    for timed in all_timed:
        if timed.launch is not None and timed.reason is None:
            cells |= {cell.key: cell for cell, _, _ in timed.launch.cells}
    records: dict[str, Record] = {}
    options = replace(options, binaries=True)
    for event in run_plan(replace(plan, cells=list(cells.values())), store, options):
        if isinstance(event, RecordSettled):
            records[event.record.key] = event.record
        yield event
    return records


class Bench:
    """The runner of binaries on the GPU, which measures results one after another.

    After Ctrl-C `interrupted` is True: the timings so far are kept, and nothing more is timed.
    """

    def __init__(self, runner: CardRunner, folder: Path) -> None:
        self._runner, self._folder = runner, folder
        self.interrupted = False

    def time(self, timed: TimedResult, records: Mapping[str, Record]) -> TunerResult:
        """Return the result with times of its configurations and fallbacks, or why it has none."""
        reason = _INTERRUPT if self.interrupted else timed.reason
        if reason or timed.launch is None:
            return replace(timed.result, not_timed=reason)
        try:
            times = {**timed.failures, **self._times(timed.launch, records)}
        except KeyboardInterrupt:
            self.interrupted = True
            return replace(timed.result, not_timed=_INTERRUPT)
        configs = []
        for each in timed.result.configs:
            configs.append(replace(each, timing=times.get(canonical(each.config))))
        prices = []
        for use, config in timed.fallbacks:
            prices.append(Price(use, *price_against(times[canonical(config)], configs)))
        return replace(timed.result, configs=configs, prices=prices, rank=rank_correlation(configs))

    def _times(self, launch: MeasuredLaunch, records: Mapping[str, Record]) -> dict[str, Timing]:
        """Return the timing of each configuration, by its canonical text."""
        bundled = bundled_launch(launch, variants_of(launch, records, self._folder))
        findings = run_launch(bundled, self._folder, self._runner, _SEED)
        results = judge_launch(bundled, findings.facts, findings.deaths).results
        times = {}
        for index, (result, (_, config, _)) in enumerate(zip(results, launch.cells)):
            times[canonical(config)] = _timing(result, _samples(findings, index))
        return times


def _samples(findings: Findings, index: int) -> list[float]:
    finding: Json = findings.facts.get("variants", {}).get(str(index), {})
    samples: list[float] = finding.get("microseconds", [])
    return samples


def _timing(result: Result, samples: Sequence[float]) -> Timing:
    """Return the median of the samples, and the times that a fifth of them lies below and above."""
    if not samples or result.state is State.FAULTS:
        return Timing(failed=result.reason or "it was not timed")
    low, *_, high = statistics.quantiles(samples, n=5)
    return Timing(
        median_ms=_milliseconds(statistics.median(samples)),
        low_ms=_milliseconds(low),
        high_ms=_milliseconds(high),
        error=0.0 if result.state is State.SAME else result.error,
    )


def _milliseconds(microseconds: float) -> float:
    return round(microseconds / 1_000, 5)


def price_against(
    timing: Timing, configs: Sequence[ExaminedConfig]
) -> tuple[float | None, float | None]:
    """Return the time of a fallback, and its multiple of the best configuration's."""
    medians = []
    for each in configs:
        if each.timing and each.timing.median_ms:
            medians.append(each.timing.median_ms)
    if timing.median_ms is None or not medians:
        return timing.median_ms, None
    return timing.median_ms, round(timing.median_ms / min(medians), 3)


def rank_correlation(configs: Sequence[ExaminedConfig]) -> float | None:
    """Return the rank correlation of the estimates with the measured times."""
    estimates = []
    medians = []
    for each in configs:
        if each.timing and each.timing.median_ms is not None:
            estimates.append(each.estimate)
            medians.append(each.timing.median_ms)
    return spearman(estimates, medians)


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, −1 to 1; ties share their mean rank.

    It is None for fewer than three pairs, and if all values of one side are equal.
    """
    # Two pairs agree or disagree by chance.
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return round(statistics.correlation(_ranks(first), _ranks(second)), 3)


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value from 1; ties share their mean."""
    ascending = sorted(values)
    return [ascending.index(value) + (ascending.count(value) + 1) / 2 for value in values]
