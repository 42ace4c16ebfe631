"""The answer of the usual configurations, while others are still to be compiled."""

import math
import time
from collections.abc import Iterator, Sequence

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.launch_evidence import find_blocking_failures
from flacheck.evidence.analysis.observation import ObservedCell, observe
from flacheck.evidence.analysis.order import count_noun
from flacheck.evidence.analysis.untested_cells import separate_untested
from flacheck.model import Cell, Record, Verdict
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.schedule import Costs, cost_of
from flacheck.tables.settings.durations import rounded

_MOST_FAILURES = 3
# The fewest records that make an answer.
_FEWEST = 10
_TRIED = (Verdict.COMPILES, Verdict.FAILS)


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
        tried = [record for record in records if record.verdict in _TRIED]
        costs = Costs.of(cost_of(record.cell, record.seconds) for record in tried)
        seconds = sum(map(costs.seconds, remaining_cells)) / workers
        number = count_noun(len(remaining_cells), "further configuration")
        yield f"compiling {number}, which takes {_duration(seconds)}"


class AnswerSoFar:
    """The size of a question before its compiles, and the answer when a budget has passed.

    Without a budget it tells nothing, and no answer so far of a run that stops then.
    """

    def __init__(self, options: RunOptions, cells: Sequence[Cell]) -> None:
        self._options, self._cells = options, cells
        self._due = math.inf if options.stops else options.due()

    def announce(self, costs: Costs, origin: str) -> Iterator[str]:
        """Yield the number of cells and their time by known times of such kernels."""
        if self._options.budget is None or not self._cells:
            return
        number = count_noun(len(self._cells), "cell")
        if costs.has_times_of(self._cells):
            seconds = sum(map(costs.seconds, self._cells)) / self._options.workers
            yield f"{number} to compile, which takes {_duration(seconds)} by {origin}"
        else:
            yield f"{number} to compile; nothing is known of their time yet"

    def sentences(self, records: Sequence[Record]) -> Iterator[str]:
        """Yield the answer so far and the time that the rest takes, once the budget has passed."""
        if time.monotonic() < self._due or len(records) < min(_FEWEST, len(self._cells) // 2):
            return
        self._due = math.inf
        settled_keys = {record.key for record in records}
        rest = [cell for cell in self._cells if cell.key not in settled_keys]
        if rest:
            elapsed = rounded(time.monotonic() - self._options.began)
            kernels = {cell.kernel.name for cell in self._cells}
            settled = kernels & {record.kernel for record in records}
            yield (
                f"Not known yet: after {elapsed} {len(settled)} of {len(kernels)} kernels are "
                "tried; the scan goes on"
            )
            yield from describe(records, rest, self._options.workers)


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


def _duration(seconds: float) -> str:
    """Return `about 40 s`, `about 12 min` or `about 3 h`."""
    return f"about {rounded(max(seconds, 1))}"
