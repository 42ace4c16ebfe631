"""The run of a plan: its entry in the store, its workers, its events."""

import logging
import math
import platform
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from flacheck.engine.executors import Executor, LocalPool, OutOfTime, machine_memory_mb
from flacheck.engine.loop import Loop, Timeouts
from flacheck.engine.provider import Provider
from flacheck.evidence.analysis.alternatives import is_skipped
from flacheck.evidence.analysis.observation import ObservedCell, observe
from flacheck.evidence.analysis.order import count_noun
from flacheck.evidence.analysis.ordered_search import State
from flacheck.evidence.analysis.untested_cells import why_untested
from flacheck.model import Cell, Json, Record, Verdict
from flacheck.pipeline import adaptive, interim
from flacheck.pipeline.events import Event, Progress, RecordSettled, RunFinished, RunStarted
from flacheck.pipeline.job import ADAPTIVE, DASK, MEMORY_MB, RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.published_times import published_costs
from flacheck.pipeline.schedule import Costs, RemainingWork, most_telling_first, stored_cost
from flacheck.pipeline.shared_cache import SharedCache
from flacheck.store import Store
from flacheck.store.binaries import Binaries
from flacheck.toolchains import torch_pins
from flacheck.version import __version__

_LOG = logging.getLogger(__name__)

# The share of the machine's memory that one CUDA unit may take at most.
_SHARE_OF_MACHINE = 0.75
# New verdicts that are written to the shared cache together.
_WRITTEN_AT_ONCE = 64

# True for a failing cell that a waiver or a baseline excuses.
Excuse = Callable[[ObservedCell], bool]


# Returns cells of a run that are worth a compile by its records so far.
FindCells = Callable[[], Sequence[Cell]]


def environment() -> Json:
    """Return the versions of flacheck, Python and the platform, as a run stores them."""
    return {
        "flacheck": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def excuse_nothing(cell: ObservedCell) -> bool:
    """Return False: every failure counts."""
    return False


def find_none() -> Sequence[Cell]:
    """Return no cell."""
    return ()


@dataclass
class ActiveRun:
    """A run with warm workers. `open_run` makes it and ends its workers.

    `is_complete` is False after the budget of a run that stops then.
    """

    id: str
    store: Store
    loop: Loop
    cache_from: SharedCache | None = None
    cache_to: SharedCache | None = None
    is_complete: bool = True

    def settle(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """Yield each cell's record: from the store, the shared cache, or a compile."""
        if self.cache_from is not None and not self.loop.again:
            self._fetch(self.cache_from, cells)
        new_records = []
        try:
            for record in self.loop.records(cells):
                if self.cache_to is not None and not record.cached:
                    new_records.append(record)
                    if len(new_records) >= _WRITTEN_AT_ONCE:
                        self.cache_to.write(new_records)
                        new_records = []
                yield record
        finally:
            if self.cache_to is not None:
                self.cache_to.write(new_records)

    def _fetch(self, cache: SharedCache, cells: Sequence[Cell]) -> None:
        """Store the shared cache's records of cells that have none here."""
        stored = self.store.latest_verdicts(cell.key for cell in cells)
        missing = [cell for cell in cells if cell.key not in stored]
        count = 0
        for records in cache.read(missing):
            self.store.add_many(self.id, records)
            count += len(records)
        if count:
            number = count_noun(count, "result")
            _LOG.warning(f"{number} of {len(cells)} from the shared cache {cache.location}")

    def records(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """Yield each cell's record as it is settled.

        Where the autotuner of the cell's release skips the configuration, the alternatives of the
        cell follow, until one compiles.
        """
        with_alternatives = {cell.key: cell for cell in cells if cell.alternatives}
        waiting = []
        for record in self.settle(cells):
            yield record
            if record.key in with_alternatives and is_skipped(record):
                waiting.append(with_alternatives[record.key].others())
        yield from self._alternatives(waiting)

    def _alternatives(self, waiting: list[Iterator[Cell]]) -> Iterator[Record]:
        while waiting:
            # One of each launch at a time: few launches are skipped, and the first mostly compiles.
            round_ = [(cell, others) for others in waiting if (cell := next(others, None))]
            by_key = {cell.key: cell for cell, _ in round_}
            self.store.add_cells(by_key.values())
            compiling = set()
            for record in self.settle(list(by_key.values())):
                yield record
                if record.verdict is Verdict.COMPILES:
                    compiling.add(record.key)
            waiting = [others for cell, others in round_ if cell.key not in compiling]

    def narrow(self, plan: Plan, keys: Collection[str]) -> None:
        """Store the question of the chosen cells in place of the question of all cells.

        The extents stay, so that an answer gives the number of configurations beside those of all.
        """
        question, key_sets = plan.narrow_to(keys).asks()
        self.store.settle(self.id, plan.context(), question, key_sets.values())

    def finish(self, results: Json | None = None) -> None:
        """Mark the run as finished; `results` are stored beside its records."""
        self.store.finish_run(self.id, results)


def begin_run(plan: Plan, store: Store, run: str = "") -> str:
    """Store the plan's question and cells; return the run's id.

    `run` is a run that began before its package was captured, and whose question is now known.
    """
    question, key_sets = plan.asks()
    store.add_cells(plan.cells)
    if run:
        store.settle(run, plan.context(), question, key_sets.values())
        return run
    return store.begin_run(
        environment(),
        plan.name,
        plan.context(),
        purpose=plan.purpose,
        question=question,
        key_sets=key_sets.values(),
    )


def provider_of(plan: Plan, memory_mb: int) -> Provider:
    """Return the provider of a plan's compilers.

    Where the default limit holds, a CUDA unit that needs more is compiled again with most of the
    machine's memory.
    """
    most_memory_mb = memory_mb
    if memory_mb == MEMORY_MB:
        most_memory_mb = int(_SHARE_OF_MACHINE * machine_memory_mb())
    choices, packages, attempts = plan.choices, plan.packages, plan.attempts
    return Provider(choices, packages, attempts, memory_mb, plan.trust, most_memory_mb)


def make_executor(options: RunOptions, timeouts: Timeouts) -> Executor:
    """Return the executor that the options name: this machine's workers, or a Dask cluster."""
    name, _, address = options.executor.partition(":")
    if name == DASK:
        # Only its users pay for the import of Dask.
        from flacheck.engine.cluster import DaskExecutor

        return DaskExecutor(address, options.workers, timeouts)
    return LocalPool(options.workers, timeouts, end=options.due() if options.stops else math.inf)


@contextmanager
def open_run(
    plan: Plan, store: Store, options: RunOptions, run: str = ""
) -> Generator[ActiveRun, None, None]:
    """Store a run of the plan and yield it with its workers, which end with the context."""
    cache_from = cache_to = None
    if options.cache_from is not None:
        cache_from = SharedCache.open(options.cache_from, "--cache-from")
    if options.cache_to is not None:
        cache_to = SharedCache.open(options.cache_to, "--cache-to", is_written=True)
    timeouts = Timeouts(options.timeout)
    provider = provider_of(plan, options.memory_mb)
    # A run whose executor cannot be reached is not stored.
    executor = make_executor(options, timeouts)
    try:
        run = begin_run(plan, store, run)
        binaries = Binaries() if options.binaries else None
        loop = Loop(provider, run, store, executor, timeouts, options.fresh, binaries)
        active = ActiveRun(run, store, loop, cache_from, cache_to)
        try:
            yield active
        except OutOfTime:
            active.is_complete = False
    finally:
        executor.close()


def run_plan(
    plan: Plan,
    store: Store,
    options: RunOptions,
    excuse: Excuse = excuse_nothing,
    run: str = "",
    find_others: FindCells = find_none,
) -> Generator[Event, None, RunFinished]:
    """Compile a plan's cells into the store; return the finished run.

    Closing the generator ends the workers; what is settled stays stored.

    Args:
        plan: The cells with their compilers and packages.
        store: Where the records go.
        options: How the cells are compiled.
        excuse: Failures that do not count for `max_failures`.
        run: A run that began before its package was captured.
        find_others: Returns other configurations of failing launches, which are compiled last.
    """
    failures = new_records = 0
    records: list[Record] = []
    with open_run(plan, store, options, run) as active:
        is_adaptive = options.strategy == ADAPTIVE
        states: dict[str, State] = {}
        rounds: Iterable[Sequence[Cell]] = plan.steps
        expected_count = len(plan.cells)
        if is_adaptive:
            chosen_rounds = adaptive.choose_cells(plan.cells, states)
            first_cells = next(chosen_rounds, ())
            rounds = chain([first_cells], chosen_rounds)
            expected_count = max(adaptive.least(expected_count), len(first_cells))
        yield RunStarted(active.id, expected_count)
        remaining_cells = cells_to_compile(plan.cells, store, options)
        costs, origin = _costs(remaining_cells, store, options)
        work = RemainingWork.of(remaining_cells, costs)
        partial = interim.AnswerSoFar(options, remaining_cells)
        yield from map(Progress, partial.announce(costs, origin))
        order = most_telling_first(remaining_cells, costs)
        # Stored records come before.
        places = {cell.key: place for place, cell in enumerate(order, 1)}
        for position, cells in enumerate(rounds):
            if position and not is_adaptive:
                remaining_cells = cells_to_compile(cells, store, options)
                for sentence in interim.describe(records, remaining_cells, options.workers):
                    yield Progress(sentence)
            for record in active.records(sorted(cells, key=lambda cell: places.get(cell.key, 0))):
                states[record.key] = adaptive.state_of(record)
                work_done = None
                if not is_adaptive:
                    work_done = work.settle(record)
                yield RecordSettled(record, work_done)
                if not position:
                    records.append(record)
                    yield from map(Progress, partial.sentences(records))
                new_records += not record.cached
                failures += _is_failure(record, excuse)
                if options.max_failures and failures >= options.max_failures:
                    _LOG.info(f"stopped after {failures} failures (--max-failures)")
                    end = RunFinished(active.id, complete=False, failures=failures)
                    yield end
                    return end
        if is_adaptive:
            active.narrow(plan, states)
            yield Progress(_describe_choice(plan, states))
        yield from _try_others(active, find_others())
        active.finish()
    if new_records:
        # A run that compiled has a network: the moment to look for new torch releases.
        torch_pins.refresh()
    end = RunFinished(active.id, active.is_complete, failures)
    yield end
    return end


def _costs(cells: Sequence[Cell], store: Store, options: RunOptions) -> tuple[Costs, str]:
    """Return the expected costs of cells, and the source of the times."""
    costs = Costs.of(map(stored_cost, store.recent_costs()))
    if options.budget is not None and not costs.has_times_of(cells):
        return Costs.of(published_costs(cells)), "the nearest GPU's times"
    return costs, "stored times"


def _describe_choice(plan: Plan, states: Mapping[str, State]) -> str:
    """Return the numbers of the plan's compiled and other cells."""
    count = sum(cell.key in states for cell in plan.cells)
    cells = count_noun(len(plan.cells), "cell")
    return (
        f"--strategy adaptive: {count:,} of {cells} compiled, {len(plan.cells) - count:,} not tried"
    )


def _try_others(active: ActiveRun, others: Sequence[Cell]) -> Iterator[Event]:
    """Compile other configurations of failing launches.

    If one compiles, an autotuner that skips the failing one continues, and otherwise it is a
    fallback.
    """
    if not others:
        return
    number = count_noun(len(others), "other configuration")
    yield Progress(f"trying {number} of failing launches")
    active.store.add_cells(others)
    for record in active.settle(others):
        yield RecordSettled(record)


def cells_to_compile(cells: Sequence[Cell], store: Store, options: RunOptions) -> Sequence[Cell]:
    """Return the cells without a stored result; all of them if each is compiled anew."""
    if options.fresh:
        return cells
    stored = store.latest_verdicts(cell.key for cell in cells)
    return [cell for cell in cells if cell.key not in stored]


def records_of(plan: Plan, store: Store, options: RunOptions | None = None) -> Iterator[Record]:
    """Yield the records of a run of the plan."""
    for event in run_plan(plan, store, options or RunOptions()):
        if isinstance(event, RecordSettled):
            yield event.record


def _is_failure(record: Record, excuse: Excuse) -> bool:
    """Return True for a failure that counts.

    A tolerated or excused failure does not count, nor one that invented arguments may have caused.
    """
    if record.verdict is not Verdict.FAILS or record.tolerated:
        return False
    (cell,) = observe([record])
    return why_untested(cell) is None and not excuse(cell)
