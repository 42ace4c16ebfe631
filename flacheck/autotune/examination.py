"""An examination as one sitting: cells from a source, compiled by the engine's workers, judged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from flacheck.analysis.order import some
from flacheck.autotune import judging
from flacheck.autotune.bench import Bench
from flacheck.autotune.estimates import estimates
from flacheck.autotune.examined import TunerResult
from flacheck.autotune.pruning import pruned
from flacheck.autotune.sources import Gathered
from flacheck.autotune.substitutes import Substitutes
from flacheck.autotune.trials import Trials, ruled_out, trials
from flacheck.inputs.matrix import Matrix
from flacheck.inputs.planning import Plan
from flacheck.model import Cell, Record
from flacheck.scan.session import Session
from flacheck.store import Store

# Trials lie beside the scan's records: they are asked differently, and would count as its cells.
FOLDER = "autotune"
NAMED = 4


@dataclass
class Examination:
    """What was gathered, on its way to results. `records` compiles and yields each record;
    `results` is for then.
    """

    name: str
    gathered: Gathered
    jobs: int = 0
    memory_mb: int = 8192
    timeout: float | None = None
    fresh: bool = False
    _records: dict[str, Record] = field(default_factory=dict)

    @cached_property
    def trials(self) -> list[Trials]:
        return [trials(tuned) for tuned in self.gathered.found]

    @cached_property
    def plan(self) -> Plan:
        cells = list({cell.key: cell for asked in self.trials for cell in asked.cells}.values())
        matrix = Matrix(f"autotune {self.name}", "", ())
        return Plan(matrix, cells, self.gathered.choices, self.gathered.packages, {})

    def ruled_out(self) -> Iterator[str]:
        """What can be said of configurations before any is compiled."""
        seen = set()
        for asked in self.trials:
            for config in asked.tuned.launch.configs:
                why = ruled_out(asked.tuned, config)
                line = f"{asked.tuned.cell.kernel.name} on {asked.tuned.cell.target}: {why}"
                if why and line not in seen:
                    seen.add(line)
                    yield line

    def records(self, store: Path, progress: Callable[[str], None]) -> Iterator[Record]:
        """Each cell's record as it is settled."""
        with Store.open(store / FOLDER) as opened:
            session = Session(
                self.plan, opened, self.timeout, self.jobs, self.memory_mb, self.fresh, None
            )
            for record in session.records(progress):
                self._records[record.key] = record
                yield record

    def timed(
        self, results: Sequence[TunerResult], bench: Bench, progress: Callable[[str], None]
    ) -> list[TunerResult]:
        """The results with what the card that is here makes of their configurations."""
        places = {_place(asked.tuned.cell): asked.tuned for asked in self.trials}
        timed = []
        with bench:
            for number, each in enumerate(results, 1):
                progress(
                    f"timing {number} of {len(results)}: {each.kernel}, {len(each.configs)} configurations"
                )
                tuned = places[each.kernel, each.package, each.toolchain, each.target]
                timed.append(bench.timed(each, tuned, self.plan.packages))
        return timed

    def results(
        self, store: Path, budget: int, progress: Callable[[str], None]
    ) -> list[TunerResult]:
        """Every launch's result, in the order in which the source named them, with fallbacks out of
        at most `budget` candidates for each failure (none with 0). Kernels of which there is
        nothing to say are only named.
        """
        left_out = pruned(
            self.plan, [asked.tuned for asked in self.trials], self.memory_mb, progress
        )
        workers = len(os.sched_getaffinity(0))
        judged = [
            (
                asked,
                judging.judge(
                    asked,
                    self._records,
                    estimates(asked, self.plan.packages),
                    left_out[asked.tuned.cell.key],
                    workers,
                ),
            )
            for asked in self.trials
        ]
        silent = sorted({result.kernel for _, result in judged if result.is_silent})
        if silent:
            names = ", ".join(some(silent, NAMED))
            progress(
                f"{len(silent)} kernels were not launched, and nothing can be said of them: {names}"
            )
        said = [(asked, result) for asked, result in judged if not result.is_silent]
        if not budget:
            return [result for _, result in said]
        return Substitutes(self.plan, store, self.jobs, self.memory_mb, budget).add(said, progress)


def _place(cell: Cell) -> tuple[str, str | None, str, str]:
    return cell.kernel.name, cell.kernel.package, cell.toolchain, cell.target
