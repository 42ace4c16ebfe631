"""What to use in place of configurations that end a run: searched by `fallbacks`, over all releases
and targets asked.

A search speaks of compiles. What a trial compiled counts as one, so that no configuration is
compiled twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.analysis.fallbacks import Fallback
from flacheck.autotune.examined import Fate, TunerResult
from flacheck.autotune.trials import Trials
from flacheck.engine.plan import Plan
from flacheck.fallbacks.exploration import BUDGET
from flacheck.fallbacks.searching import search_with_workers
from flacheck.model import Cell, Record
from flacheck.store import Store


@dataclass(frozen=True)
class Substitutes:
    """The search over examined launches; `store` is the folder that holds scans' records."""

    plan: Plan
    store: Path
    jobs: int
    memory_mb: int
    budget: int = BUDGET

    def add(
        self, examined: Sequence[tuple[Trials, TunerResult]], progress: Callable[[str], None]
    ) -> list[TunerResult]:
        """The results, each with what its failing configurations can be replaced by."""
        results = [result for _, result in examined]
        kernels = {(each.kernel, each.package) for each in results if _is_mendable(each)}
        cells: dict[str, Cell] = {}
        tried: dict[str, Record] = {}
        for asked, result in examined:
            # Also where nothing fails: a fallback says everywhere it was seen to compile.
            if (result.kernel, result.package) in kernels:
                for cell, config in zip(asked.compiles(), result.configs):
                    cells[cell.key] = cell
                    tried[cell.key] = config.record.with_(cell=cell)
        if not cells:
            return results
        advice = self._search(list(cells.values()), tried, progress)
        return [replace(result, fallbacks=_of(result, advice)) for result in results]

    def _search(
        self, cells: list[Cell], tried: Mapping[str, Record], progress: Callable[[str], None]
    ) -> list[Fallback]:
        plan = replace(self.plan, cells=cells)
        records = [tried[cell.key] for cell in cells]
        with Store.open(self.store) as store:
            return search_with_workers(
                plan,
                records,
                store,
                jobs=self.jobs,
                memory_mb=self.memory_mb,
                budget=self.budget,
                progress=progress,
                tried=tried,
            )


def _is_mendable(result: TunerResult) -> bool:
    """Whether something ends its runs that other settings could mend: no key, and no import."""
    fates = [config.fate for config in result.configs if not config.compiles]
    every_one_fails = bool(fates) and len(fates) == len(result.configs)
    return Fate.ENDS_RUN in fates or every_one_fails


def _of(result: TunerResult, advice: Sequence[Fallback]) -> tuple[Fallback, ...]:
    place = (result.kernel, result.package, result.toolchain, result.target)
    return tuple(
        each for each in advice if (each.kernel, each.package, each.toolchain, each.target) == place
    )
