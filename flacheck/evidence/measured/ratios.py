"""Ratios of times between releases, by kernel and by operator. Pure functions."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

from flacheck.evidence.measured.results import LaunchResult, Ratio, ReleaseSummary, Result, State

# Timings below this ratio are everyday noise of code generation; above it people complain.
SLOWER = 1.1
# A ratio also has to exceed this many spreads of the same binary timed twice.
_SPREADS = 3.0


def change_of(ratio: float, spread: float) -> Literal["slower", "faster", "equal"]:
    """Return whether a ratio of times is a change: beyond 1.1 and beyond three spreads."""
    if ratio > SLOWER and ratio - 1 > _SPREADS * spread:
        return "slower"
    if ratio < 1 / SLOWER and 1 / ratio - 1 > _SPREADS * spread:
        return "faster"
    return "equal"


def best_results(launch: LaunchResult) -> dict[str, Result]:
    """Return the quickest result of each release, which is what its autotuner would choose."""
    best: dict[str, Result] = {}
    for result in launch.results:
        if result.times is None or result.state is State.FAULTS:
            continue
        other = best.get(result.toolchain)
        if other is None or result.times.median < _median(other):
            best[result.toolchain] = result
    return best


def _median(result: Result) -> float:
    assert result.times is not None
    return result.times.median


def kernel_ratios(launches: Iterable[LaunchResult], toolchains: Sequence[str]) -> Iterator[Ratio]:
    """Yield the ratio of each launch under each release to the first release."""
    for launch in launches:
        best = best_results(launch)
        if toolchains[0] not in best:
            continue
        base = _median(best[toolchains[0]])
        for toolchain in toolchains[1:]:
            if toolchain in best:
                config = best[toolchain].config or None
                spread = launch.spread or 0.0
                time = _median(best[toolchain])
                yield _ratio(launch.kernel, launch.dtype, toolchain, (time, base, spread), config)


def operator_ratios(launches: Iterable[LaunchResult], toolchains: Sequence[str]) -> Iterator[Ratio]:
    """Yield the ratio of each operator: the sum of its launches that both releases have."""
    by_operator: dict[tuple[str, str | None], list[LaunchResult]] = {}
    for launch in launches:
        for operator in launch.operators:
            by_operator.setdefault((operator, launch.dtype), []).append(launch)
    for (operator, dtype), own in by_operator.items():
        for toolchain in toolchains[1:]:
            times = list(_times(own, toolchains[0], toolchain))
            if times:
                base, time, spread = map(sum, zip(*times))
                yield _ratio(operator, dtype, toolchain, (time, base, spread / base), None)


def _times(
    launches: Iterable[LaunchResult], base: str, toolchain: str
) -> Iterator[tuple[float, float, float]]:
    """Yield the times of each launch that both releases have, and its spread in microseconds."""
    for launch in launches:
        best = best_results(launch)
        if base in best and toolchain in best:
            time = _median(best[base])
            yield time, _median(best[toolchain]), time * (launch.spread or 0.0)


def _ratio(
    name: str,
    dtype: str | None,
    toolchain: str,
    times: tuple[float, float, float],
    config: dict[str, Any] | None,
) -> Ratio:
    time, base, spread = times
    ratio = time / base
    change = change_of(ratio, spread)
    return Ratio(
        name, dtype, toolchain, round(time, 4), round(ratio, 4), round(spread, 4), change, config
    )


def summarise(
    launches: Sequence[LaunchResult],
    kernels: Sequence[Ratio],
    operators: Sequence[Ratio],
    toolchains: Sequence[str],
) -> Iterator[ReleaseSummary]:
    """Yield a summary of each release; the first release has no ratios."""
    for toolchain in toolchains:
        results = chain.from_iterable(launch.results for launch in launches)
        own = [result for result in results if result.toolchain == toolchain]
        ratios = [ratio for ratio in kernels if ratio.toolchain == toolchain]
        own_operators = [ratio for ratio in operators if ratio.toolchain == toolchain]
        changes = Counter(ratio.change for ratio in ratios)
        states = Counter(result.state.value for result in own)
        times = list(_times(launches, toolchains[0], toolchain))
        yield ReleaseSummary(
            toolchain=toolchain,
            kernels=len(ratios),
            slower=changes["slower"],
            faster=changes["faster"],
            operators=len(own_operators),
            slower_operators=sum(ratio.change == "slower" for ratio in own_operators),
            geometric_mean=_geometric_mean([ratio.ratio for ratio in ratios]),
            total=_total(times) if ratios else None,
            states=dict(states),
            wrong=sum(result.is_wrong for result in own),
        )


def _geometric_mean(ratios: Sequence[float]) -> float | None:
    if not ratios:
        return None
    return round(statistics.geometric_mean(ratios), 4)


def _total(times: Sequence[tuple[float, float, float]]) -> float | None:
    base = sum(first for first, _, _ in times)
    if not base:
        return None
    return round(sum(time for _, time, _ in times) / base, 4)
