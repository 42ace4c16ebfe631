"""The answer of the usual configurations, while others are still to be compiled."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.launch_evidence import find_blocking_failures
from flacheck.evidence.analysis.observation import ObservedCell, observe
from flacheck.evidence.analysis.order import count_noun
from flacheck.evidence.analysis.untested_cells import separate_untested
from flacheck.model import Cell, Record, Verdict
from flacheck.pipeline.schedule import Costs

_MOST_FAILURES = 3
_MINUTE, _HOUR = 60, 3600


def describe(
    records: Sequence[Record], remaining_cells: Sequence[Cell], workers: int
) -> Iterator[str]:
    """Yield the answer so far of each toolchain and target, and the time that the rest takes.

    Args:
        records: The records of the usual configurations.
        remaining_cells: The cells that follow and lack a record.
        workers: The number of workers.
    """
    launches = [record for record in records if record.cell.stage == "compile"]
    cells, _ = separate_untested(observe(launches))
    for (toolchain, target), own in group_by_key((cell.place, cell) for cell in cells).items():
        yield f"so far, {toolchain} on {target}: {_answer(own)}"
    if remaining_cells:
        seconds = _estimate(records, remaining_cells) / workers
        number = count_noun(len(remaining_cells), "further configuration")
        yield f"compiling {number}, which takes {_duration(seconds)}"


class AnswerSoFar:
    """The size of a question before its compiles, and the answer when a budget has passed.

    Without a budget it tells nothing.
    """

    def __init__(self, budget: float | None, workers: int, cells: Sequence[Cell]) -> None:
        self._budget, self._workers, self._cells = budget, workers, cells
        self._due = math.inf
        if budget is not None:
            self._due = time.monotonic() + budget

    def announce(self, costs: Costs) -> Iterator[str]:
        """Yield the number of cells and, by stored times of such kernels, their time."""
        if self._budget is None or not self._cells:
            return
        number = count_noun(len(self._cells), "cell")
        if costs.has_times():
            seconds = sum(map(costs.seconds, self._cells)) / self._workers
            yield f"{number} to compile, which takes {_duration(seconds)} by stored times"
        else:
            yield f"{number} to compile; the store has no times for an estimate yet"

    def sentences(self, records: Sequence[Record]) -> Iterator[str]:
        """Yield the answer so far and the time that the rest takes, once the budget has passed."""
        if time.monotonic() < self._due:
            return
        self._due = math.inf
        settled_keys = {record.key for record in records}
        rest = [cell for cell in self._cells if cell.key not in settled_keys]
        if rest:
            yield f"after {self._budget:g} s (--budget): the answer by a part of the cells"
            yield from describe(records, rest, self._workers)


def _answer(cells: Sequence[ObservedCell]) -> str:
    """Return `96 of 99 kernels compile; chunk_fwd_o fails (FC302)`."""
    kernels = {cell.kernel for cell in cells}
    failing: dict[str, str] = {}
    for cell in find_blocking_failures(cells):
        failing.setdefault(cell.kernel, cell.code or "unclassified")
    compiling = {cell.kernel for cell in cells if cell.compiles} - failing.keys()
    text = f"{len(compiling)} of {count_noun(len(kernels), 'kernel')} compile"
    names = [f"{kernel} ({code})" for kernel, code in list(failing.items())[:_MOST_FAILURES]]
    if len(failing) > _MOST_FAILURES:
        names.append(f"{len(failing) - _MOST_FAILURES} more")
    if names:
        text += f"; failing: {', '.join(names)}"
    return text


def _estimate(records: Sequence[Record], cells: Sequence[Cell]) -> float:
    """Return the seconds that one worker takes for cells, by the kernels' mean so far."""
    means = _mean_seconds(records)
    if not means:
        return 0.0
    overall = fmean(means.values())
    return sum(means.get(cell.kernel.name, overall) for cell in cells)


def _mean_seconds(records: Sequence[Record]) -> Mapping[str, float]:
    seconds: dict[str, list[float]] = {}
    for record in records:
        if record.verdict in (Verdict.COMPILES, Verdict.FAILS):
            seconds.setdefault(record.kernel, []).append(record.seconds)
    return {kernel: fmean(own) for kernel, own in seconds.items()}


def _duration(seconds: float) -> str:
    """Return `about 40 s`, `about 12 min` or `about 2.5 h`."""
    if seconds < _MINUTE:
        return f"about {max(round(seconds), 1)} s"
    if seconds < _HOUR:
        return f"about {round(seconds / _MINUTE)} min"
    return f"about {seconds / _HOUR:.1f} h"
