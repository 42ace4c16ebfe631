"""What to use in place of configurations that end a run: searched by `fallbacks`, over all releases
and targets asked.

A search speaks of compiles. What a trial compiled counts as one, so that no configuration is
compiled twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from flacheck import fallbacks
from flacheck.analysis.fallbacks import Fallback
from flacheck.autotune.estimates import compiled
from flacheck.autotune.examined import Fate, TunerResult
from flacheck.autotune.trials import Trials
from flacheck.engine import loop as scan
from flacheck.engine.executors import LocalPool
from flacheck.inputs.planning import Plan
from flacheck.model import Cell, Record
from flacheck.scan.session import CANDIDATE_SECONDS, environment
from flacheck.store import Store


@dataclass
class Substitutes:
    """The search over examined launches; `store` is the folder in which scans keep their records."""

    plan: Plan
    store: Path
    jobs: int
    memory_mb: int
    budget: int = fallbacks.BUDGET
    _tried: dict[str, Record] = field(default_factory=dict)

    def add(
        self, examined: Sequence[tuple[Trials, TunerResult]], progress: Callable[[str], None]
    ) -> list[TunerResult]:
        """The results, each with what its failing configurations can be replaced by."""
        wanted = {_identity(result) for _, result in examined if _wants(result)}
        launches = [
            pair for pair in examined if any(_identity(pair[1])[:2] == each[:2] for each in wanted)
        ]
        if not wanted:
            return [result for _, result in examined]
        cells = [cell for asked, result in launches for cell in self._compiles(asked, result)]
        found = self._search(list({cell.key: cell for cell in cells}.values()), progress)
        return [replace(result, fallbacks=_of(result, found)) for _, result in examined]

    def _compiles(self, asked: Trials, result: TunerResult) -> list[Cell]:
        """Each configuration as a plain compile, with what its trial found."""
        cells = []
        for place, examined in enumerate(result.configs):
            cell = compiled(asked, place)
            launch = cell.launch.to_json() if cell.launch else None
            self._tried[cell.key] = examined.record.with_(key=cell.key, launch=launch)
            cells.append(cell)
        return cells

    def _search(self, cells: list[Cell], progress: Callable[[str], None]) -> list[Fallback]:
        plan = fallbacks.with_those_here(replace(self.plan, cells=cells))
        timeouts = scan.Timeouts(CANDIDATE_SECONDS)
        pool = LocalPool(self.jobs or len(os.sched_getaffinity(0)), timeouts)
        with Store.open(self.store / fallbacks.FOLDER) as own:
            run = own.begin_run(environment(), plan.matrix.name)
            sink = fallbacks.Beside(own, _Tried(self._tried))
            oracle = fallbacks.ScanOracle(plan, run, sink, pool, timeouts, self.memory_mb, progress)
            try:
                records = [self._tried[cell.key] for cell in cells]
                return list(fallbacks.search(plan, records, oracle, self.budget, progress))
            finally:
                pool.close()


@dataclass(frozen=True)
class _Tried:
    """What trials found, as a store that is only read."""

    records: Mapping[str, Record]

    def done(self, keys: Iterable[str]) -> Mapping[str, Record]:
        return {key: self.records[key] for key in keys if key in self.records}


def _identity(result: TunerResult) -> tuple[str, str | None, str, str]:
    return result.kernel, result.package, result.toolchain, result.target


def _wants(result: TunerResult) -> bool:
    """Whether something ends its runs that other settings could mend: no key, and no import."""
    fates = [config.fate for config in result.configs if not config.compiles]
    return Fate.ENDS_RUN in fates or bool(fates and len(fates) == len(result.configs))


def _of(result: TunerResult, found: Iterable[Fallback]) -> tuple[Fallback, ...]:
    return tuple(
        each
        for each in found
        if (each.kernel, each.package, each.toolchain, each.target) == _identity(result)
    )
