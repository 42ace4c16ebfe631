"""An examination as one sitting: cells from a source, compiled by the engine's workers, judged."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.order import some
from flacheck.capabilities.autotune import judging
from flacheck.capabilities.autotune.bench import Bench
from flacheck.capabilities.autotune.gathering import TunedLaunches
from flacheck.capabilities.autotune.pruning import find_pruned_configs
from flacheck.capabilities.autotune.results import Fate, TunerResult
from flacheck.capabilities.autotune.trials import Trials, ruled_out, trials
from flacheck.fallbacks.searching import search_with_workers
from flacheck.model import Cell, Purpose, Record, canonical
from flacheck.pipeline.events import Event, RecordSettled
from flacheck.pipeline.job import MEMORY_MB, RunOptions, count_processors
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.store import Store

_LOG = logging.getLogger(__name__)

# A package has dozens of kernels without a launch; a line names a few.
_NAMED = 4
# Given compiles with what is known of them, by key: what compiles in place of those that fail.
Search = Callable[[Sequence[Cell], Mapping[str, Record]], Iterable[Fallback]]


@dataclass
class Examination:
    """What was gathered, on its way to results: `records` compiles, `results` judges."""

    name: str
    gathered: TunedLaunches
    jobs: int = 0
    fresh: bool = False
    _records: dict[str, Record] = field(default_factory=dict)

    @cached_property
    def trials(self) -> list[Trials]:
        return [trials(tuned) for tuned in self.gathered.launches]

    @cached_property
    def plan(self) -> Plan:
        cells = list({cell.key: cell for asked in self.trials for cell in asked.cells}.values())
        return Plan(
            name=f"autotune {self.name}",
            cells=cells,
            choices=self.gathered.choices,
            packages=self.gathered.packages,
            purpose=Purpose.AUTOTUNE,
            trust=self.gathered.trust,
        )

    def ruled_out(self) -> list[str]:
        """What can be said of configurations before any is compiled, once each."""
        lines = []
        for asked in self.trials:
            cell = asked.tuned_launch.cell
            for config in asked.tuned_launch.launch.configs:
                why = ruled_out(asked.tuned_launch, config)
                if why:
                    lines.append(f"{cell.kernel.name} on {cell.target}: {why}")
        return list(dict.fromkeys(lines))

    def compile(self, store: Path) -> Iterator[Event]:
        """Settle each cell in the store of a folder."""
        options = RunOptions(jobs=self.jobs, fresh=self.fresh)
        with Store.open(store) as opened:
            for event in run_plan(self.plan, opened, options):
                if isinstance(event, RecordSettled):
                    self._records[event.record.key] = event.record
                yield event

    def time_results(self, results: Sequence[TunerResult], bench: Bench) -> list[TunerResult]:
        """The results with what the card that is here makes of their configurations."""
        launched = {}
        for asked in self.trials:
            cell = asked.tuned_launch.cell
            place = (cell.kernel.name, cell.kernel.package, cell.toolchain, cell.target)
            launched[place, canonical(asked.tuned_launch.launch.to_json())] = asked.tuned_launch
            # The result of a kernel without configurations names no launch.
            launched.setdefault((place, canonical(None)), asked.tuned_launch)
        timed = []
        with bench:
            for number, each in enumerate(results, 1):
                step = f"timing {number} of {len(results)}"
                _LOG.info(f"{step}: {each.kernel}, {len(each.configs)} configurations")
                place = (each.kernel, each.package, each.toolchain, each.target)
                tuned = launched[place, canonical(each.launch)]
                timed.append(bench.time_configs(each, tuned, self.plan.packages))
        return timed

    def results(self, store: Path, budget: int) -> list[TunerResult]:
        """Every launch's result, in the order in which the source named them, with fallbacks out of
        at most `budget` candidates for each failure (none with 0). Kernels of which there is
        nothing to say are only named."""
        tuned = [asked.tuned_launch for asked in self.trials]
        left_out = find_pruned_configs(self.plan, tuned, MEMORY_MB)
        judged = []
        silent = set()
        for asked in self.trials:
            estimates = asked.estimates(self.plan.packages)
            its_own = left_out.get(asked.tuned_launch.cell.key, [])
            result = judging.judge(asked, self._records, estimates, its_own, count_processors())
            if result.is_silent:
                silent.add(result.kernel)
            else:
                judged.append((asked, result))
        if silent:
            names = ", ".join(some(sorted(silent), _NAMED))
            _LOG.info(f"never launched and therefore not examined: {names}")
        # `--fallback-budget 0`, and scripts that only want the verdicts.
        if not budget:
            return [result for _, result in judged]

        def search(cells: Sequence[Cell], tried: Mapping[str, Record]) -> list[Fallback]:
            with Store.open(store) as opened:
                return search_with_workers(
                    replace(self.plan, cells=cells),
                    tried.values(),
                    opened,
                    RunOptions(jobs=self.jobs),
                    budget=budget,
                    extra_records=tried,
                )

        return with_fallbacks(judged, search)


def with_fallbacks(
    examined: Sequence[tuple[Trials, TunerResult]], search: Search
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
    of_cell = group_by_key((each.key, each) for each in search(list(cells.values()), tried))
    mended = []
    for asked, result in examined:
        own: list[Fallback] = []
        for cell in asked.compiles():
            own += of_cell.get(cell.key, ())
        mended.append(replace(result, fallbacks=tuple(own)))
    return mended


def _is_mendable(result: TunerResult) -> bool:
    """Whether something ends its runs that other settings could mend: no key, and no import."""
    fates = [config.fate for config in result.configs if not config.compiles]
    every_one_fails = bool(fates) and len(fates) == len(result.configs)
    return Fate.ENDS_RUN in fates or every_one_fails
