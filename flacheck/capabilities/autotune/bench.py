"""The timing of compiling configurations on this machine's GPU (`--bench`).

flacheck's own kernels are timed as their host functions launch them, others as they were recorded:
on tensors like the recorded ones, with other numbers in them. A worker process does it, because a
kernel may fault on the GPU or never end.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flacheck.capabilities.autotune import timeable
from flacheck.capabilities.autotune.emit import configuration
from flacheck.capabilities.autotune.results import (
    ExaminedConfig,
    Fate,
    Price,
    Timing,
    TunedLaunch,
    TunerResult,
)
from flacheck.engine.card import CardWorker, failure_of
from flacheck.errors import UsageError
from flacheck.model import Attempt, Json, Outcome, canonical
from flacheck.source.packages.package import Package

# The longest time of a scan's compile for a kernel without a history.
_SECONDS = 300.0
# The number of configurations of a launch that may end their worker before the rest is skipped.
_MOST_CRASHES = 2
_GIVEN_UP = "not tried: configurations before it hung, or took their worker along"
_INTERRUPT = "interrupted"
_Config = Mapping[str, Any]
Packages = Mapping[str, Package]


class Bench:
    """A worker on the GPU, inside of a `with` statement.

    After Ctrl-C `interrupted` is True: the timings so far are kept, and nothing more is timed.

    Args:
        device: The torch device.
        seconds: The time limit of a configuration with its compile.
        trust: True if the user trusts the sources of kernels.

    Raises:
        UsageError: If no GPU is found, or torch cannot use it.
    """

    def __init__(
        self, device: str = "cuda", seconds: float = _SECONDS, trust: bool = False
    ) -> None:
        settings = {"trust": trust}
        self._worker = CardWorker("bench_worker", "--bench", device, seconds, UsageError, settings)
        self._choice, self.card = self._worker.toolchain, self._worker.card
        self.interrupted = False

    def __enter__(self) -> Bench:
        self._worker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.__exit__()

    def time_configs(
        self, result: TunerResult, tuned_launch: TunedLaunch, packages: Packages
    ) -> TunerResult:
        """Return the result with times of its configurations and fallbacks, or why it has none."""
        runs = [each.config for each in result.configs if each.fate is Fate.RUNS]
        instead = []
        for fallback in result.fallbacks:
            config = configuration(result, fallback)
            if config is not None:
                instead.append((fallback.use, config))
        configs = list(runs)
        for _, config in instead:
            configs.append(config)
        why = self._elsewhere(result) or timeable.untimeable(tuned_launch)
        if not why and not configs:
            why = "none of its configurations runs"
        if self.interrupted:
            why = _INTERRUPT
        times = why or self._times(tuned_launch, configs, packages)
        if isinstance(times, str):
            return replace(result, not_timed=times)
        new_configs = []
        for each in result.configs:
            new_configs.append(replace(each, timing=times.get(canonical(each.config))))
        prices = []
        for use, config in instead:
            prices.append(Price(use, *price_against(times[canonical(config)], new_configs)))
        return replace(
            result, configs=new_configs, prices=prices, rank=rank_correlation(new_configs)
        )

    def _elsewhere(self, result: TunerResult) -> str | None:
        """Return why this GPU or this Triton cannot time a result; None if they can."""
        if result.toolchain == self._choice and self.card.target in (None, result.target):
            return None
        card = self.card.target or self.card.name
        return f"{self._choice} on {card} is what is here to time with"

    def _times(
        self, tuned_launch: TunedLaunch, configs: Sequence[_Config], packages: Packages
    ) -> dict[str, Timing] | str:
        """Return the timing of each configuration, or why none has one."""
        package = _folder_of(packages.get(tuned_launch.cell.kernel.package or ""))
        request = timeable.request(tuned_launch)
        try:
            preparation = self._worker.run({**request, "op": "prepare"}, package)
        except KeyboardInterrupt:
            self.interrupted = True
            return _INTERRUPT
        if preparation.outcome is not Outcome.FINISHED:
            return f"its launch cannot be made again: {failure_of(preparation)}"
        times: dict[str, Timing] = {}
        crashes = 0
        for config in configs:
            own = timeable.own_grid(tuned_launch, config)
            if own is None:
                times[canonical(config)] = Timing(failed="its grid was not recorded")
                continue
            if crashes >= _MOST_CRASHES:
                times[canonical(config)] = Timing(failed=_GIVEN_UP)
                continue
            if self.interrupted:
                times[canonical(config)] = Timing(failed=f"not timed: {_INTERRUPT}")
                continue
            question = {**request, "op": "bench", "config": dict(config), **own}
            try:
                attempt = self._worker.run(question, package)
            except KeyboardInterrupt:
                # Each timing took seconds on the GPU, so those before the interrupt stay.
                self.interrupted = True
                times[canonical(config)] = Timing(failed=f"not timed: {_INTERRUPT}")
                continue
            times[canonical(config)] = _timing(attempt)
            # A second hang would take the whole time limit again.
            crashes += {
                Outcome.DIED: 1,
                Outcome.TIMED_OUT: _MOST_CRASHES,
                Outcome.LOST: _MOST_CRASHES,
            }.get(attempt.outcome, 0)
        return times


def _folder_of(package: Package | None) -> dict[str, Json]:
    """Return the folder and modules of a package by its identity, if there is a package."""
    if package is None:
        return {}
    return {package.identity: {"path": package.path, "modules": list(package.modules)}}


def _timing(attempt: Attempt) -> Timing:
    if attempt.outcome is not Outcome.FINISHED:
        return Timing(failed=failure_of(attempt))
    names = ("median_ms", "low_ms", "high_ms", "warm_up_s")
    times = {name: round(attempt.facts[name], 5) for name in names}
    return Timing(**times, error=attempt.facts["error"])


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
