"""The examination of autotuners: compile each configuration, judge, and look for fallbacks."""

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.capabilities.autotune import judging
from flacheck.capabilities.autotune.bench import Bench, compile_binaries, timed_cells
from flacheck.capabilities.autotune.gathering import TunedLaunches
from flacheck.capabilities.autotune.pruning import find_pruned_configs
from flacheck.capabilities.autotune.results import Fate, TunerResult
from flacheck.capabilities.autotune.trials import Trials, ruled_out, trials
from flacheck.engine.card_runner import CardRunner
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.order import some
from flacheck.model import Cell, Purpose, Record, canonical
from flacheck.pipeline.events import Event, Progress, RecordSettled
from flacheck.pipeline.fallbacks.searching import search_with_workers
from flacheck.pipeline.job import MEMORY_MB, RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.store import Store

_LOG = logging.getLogger(__name__)

# A package has dozens of kernels without a launch; a message names a few of them.
_SHOWN_KERNELS = 4
# Takes compiles and their records by key, and returns fallbacks for those that fail.
Search = Callable[[Sequence[Cell], Mapping[str, Record]], Iterable[Fallback]]
# Kernel, package, toolchain and target.
_Place = tuple[str, str | None, str, str]


@dataclass(frozen=True)
class TuningPlan:
    """The trials of each launch, and the plan with the cells of all launches, each once."""

    trials: Sequence[Trials]
    plan: Plan


def plan_tuning(name: str, gathered: TunedLaunches) -> TuningPlan:
    """Return the cells to compile for launches of autotuned kernels; `name` is the command's."""
    all_trials = [trials(tuned_launch) for tuned_launch in gathered.launches]
    cells: dict[str, Cell] = {}
    for launch_trials in all_trials:
        for cell in launch_trials.cells:
            cells[cell.key] = cell
    plan = Plan(
        name=f"autotune {name}",
        cells=list(cells.values()),
        choices=gathered.choices,
        packages=gathered.packages,
        purpose=Purpose.AUTOTUNE,
        trust=gathered.trust,
    )
    return TuningPlan(all_trials, plan)


def describe_ruled_out(tuning: TuningPlan) -> list[str]:
    """Return a line for each configuration that cannot run on its target, before a compile."""
    lines: dict[str, None] = {}
    for launch_trials in tuning.trials:
        cell = launch_trials.tuned_launch.cell
        for config in launch_trials.tuned_launch.launch.configs:
            why = ruled_out(launch_trials.tuned_launch, config)
            if why:
                lines[f"{cell.kernel.name} on {cell.target}: {why}"] = None
    return list(lines)


def compile_trials(
    tuning: TuningPlan, store: Path, options: RunOptions
) -> Generator[Event, None, dict[str, Record]]:
    """Compile each cell without a stored result; return the records by key."""
    records: dict[str, Record] = {}
    with Store.open(store) as open_store:
        for event in run_plan(tuning.plan, open_store, options):
            if isinstance(event, RecordSettled):
                records[event.record.key] = event.record
            yield event
    return records


def time_results(
    tuning: TuningPlan,
    results: Sequence[TunerResult],
    card_runner: CardRunner,
    folder: Path,
    store: Path,
    options: RunOptions,
) -> Generator[Event, None, tuple[list[TunerResult], bool]]:
    """Return the results with timings on this machine's GPU, and True after an interrupt.

    Binaries of a compile lie in the folder.
    """
    launches: dict[tuple[_Place, str], Trials] = {}
    for each in tuning.trials:
        tuned_launch = each.tuned_launch
        cell = tuned_launch.cell
        place = (cell.kernel.name, cell.kernel.package, cell.toolchain, cell.target)
        launches[place, canonical(tuned_launch.launch.to_json())] = each
        # The result of a kernel without configurations names no launch.
        launches.setdefault((place, canonical(None)), each)
    target = "sm" + "".join(map(str, card_runner.card["capability"]))
    all_timed = []
    for result in results:
        place = (result.kernel, result.package, result.toolchain, result.target)
        all_timed.append(timed_cells(result, launches[place, canonical(result.launch)], target))
    with Store.open(store) as open_store:
        records = yield from compile_binaries(all_timed, tuning.plan, open_store, options)
    bench = Bench(card_runner, folder)
    with_timings = []
    for number, timed in enumerate(all_timed, 1):
        step = f"timing {number} of {len(results)}"
        yield Progress(f"{step}: {timed.result.kernel}", is_step=True)
        with_timings.append(bench.time(timed, records))
    return with_timings, bench.interrupted


def judge_trials(
    tuning: TuningPlan, records: Mapping[str, Record], store: Path, options: RunOptions, budget: int
) -> list[TunerResult]:
    """Return the result of every launch, in the order of the source, with fallbacks.

    The search for fallbacks tries at most `budget` candidates for each failure; 0 skips it. Kernels
    that were never launched are only logged.
    """
    tuned_launches = [each.tuned_launch for each in tuning.trials]
    all_pruned = find_pruned_configs(tuning.plan, tuned_launches, MEMORY_MB)
    pairs = []
    silent = set()
    for launch_trials in tuning.trials:
        estimates = launch_trials.estimates(tuning.plan.packages)
        own_pruned = all_pruned.get(launch_trials.tuned_launch.cell.key, [])
        result = judging.judge(launch_trials, records, estimates, own_pruned)
        if result.is_silent:
            silent.add(result.kernel)
        else:
            pairs.append((launch_trials, result))
    if silent:
        names = ", ".join(some(sorted(silent), _SHOWN_KERNELS))
        _LOG.info(f"never launched and therefore not examined: {names}")
    if not budget:
        return [result for _, result in pairs]

    def search(cells: Sequence[Cell], records: Mapping[str, Record]) -> list[Fallback]:
        with Store.open(store) as open_store:
            return search_with_workers(
                replace(tuning.plan, cells=cells),
                records.values(),
                open_store,
                RunOptions(jobs=options.jobs),
                budget=budget,
                extra_records=records.values(),
            )

    return with_fallbacks(pairs, search)


def with_fallbacks(
    pairs: Sequence[tuple[Trials, TunerResult]], search: Search
) -> list[TunerResult]:
    """Return the results, each with fallbacks for its failing configurations."""
    results = [result for _, result in pairs]
    kernels = set()
    for result in results:
        if is_mendable(result):
            kernels.add((result.kernel, result.package))
    cells: dict[str, Cell] = {}
    records: dict[str, Record] = {}
    for launch_trials, result in pairs:
        # Launches without a failure count too: a fallback lists every place where it compiles.
        if (result.kernel, result.package) in kernels:
            for cell, config in zip(launch_trials.compiles(), result.configs):
                cells[cell.key] = cell
                records[cell.key] = config.record.with_(cell=cell)
    if not cells:
        return results
    fallbacks = search(list(cells.values()), records)
    by_cell = group_by_key((fallback.key, fallback) for fallback in fallbacks)
    new_results = []
    for launch_trials, result in pairs:
        own: list[Fallback] = []
        for cell in launch_trials.compiles():
            own += by_cell.get(cell.key, ())
        new_results.append(replace(result, fallbacks=tuple(own)))
    return new_results


def is_mendable(result: TunerResult) -> bool:
    """Return True if other settings may prevent the end of a run; keys and imports are not."""
    fates = [config.fate for config in result.configs if not config.compiles]
    every_one_fails = bool(fates) and len(fates) == len(result.configs)
    return Fate.ENDS_RUN in fates or every_one_fails
