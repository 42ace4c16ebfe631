"""The one loop: cells, executor, judge, store; it yields each record as it is final."""

import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Protocol

from flacheck import rules
from flacheck.engine import judge
from flacheck.engine.executors import Executor, Task, TaskResult
from flacheck.engine.provider import Provider, Unavailable
from flacheck.engine.sandbox import WorkerKind
from flacheck.engine.slow_candidates import SlowCandidates, quicker
from flacheck.model import Attempt, Cell, Json, Outcome, Record, Unit, Verdict
from flacheck.model.kernel import origin_to_json
from flacheck.tables import targets

# Seconds that any cell may take before it times out. Slow assemblers took up to 90 s.
_MINIMUM_TIMEOUT = 300.0
# The code of a record that ran into the memory limit, and the limit's name among its facts.
_OUT_OF_MEMORY, _LIMIT = "FC902", "memory_mb"
# Seconds after which a cell of a long run is ended and compiled last. A few cells of a run take
# minutes, and an answer that is read early needs the others. It is lost time for at most so many.
_PATIENCE, _MOST_POSTPONED, _LONG_RUN = 20.0, 8, 16
# The timeout of a kernel's cells, as a multiple of its slowest finished cell.
_SLOWEST_FACTOR = 20
# The number of repetitions that confirm a failure. A death without a message needs more, because
# another process could have sent the signal. Each failure of the kind that did not repeat adds one,
# up to the maximum.
_REPEATS, _SILENT_REPEATS, _MOST_REPEATS = 1, 2, 6
# Tasks that are looked up and sent together. Then the tasks of a kind that are with the executor:
# in seconds of its work, per worker, and at most.
_BLOCK, _SECONDS_OUT, _EACH_OUT, _MOST_OUT = 8, 1, 2, 4096
# Keys that are looked up in the store at once, so that few records are in memory at a time.
_PAGE = 500


class Sink(Protocol):
    """The destination of records: the store, or a list in a test."""

    def latest_verdicts(self, keys: Iterable[str]) -> Mapping[str, Verdict]: ...

    def latest_records(self, keys: Iterable[str]) -> Mapping[str, Record]: ...

    def add_many(self, run: str, records: Iterable[Record]) -> None: ...

    def add_cached(self, run: str, cells: Iterable[Record]) -> int: ...

    def others_wrote(self) -> bool: ...


class BinarySink(Protocol):
    """The destination of binaries, by the key of their cell."""

    def has(self, key: str) -> bool: ...

    def add(self, key: str, binary: Json) -> None: ...


@dataclass
class Timeouts:
    """The `--timeout` option: seconds, or by default derived from finished cells.

    The default is the larger of 300 s and 20 times the kernel's slowest finished cell. As long as
    cells may be postponed (`postponable`), the first attempt of each has less time.
    """

    fixed_seconds: float | None = None
    postponable: int = 0
    _slowest: dict[str, float] = field(default_factory=dict)

    def __call__(self, task: Task) -> float:
        if self.postponable > 0 and self._can_wait(task):
            return _PATIENCE
        return self._most_seconds(task)

    def is_early(self, task: Task, attempt: Attempt) -> bool:
        """Return True for an attempt that was ended so that others have their turn."""
        if attempt.outcome is not Outcome.TIMED_OUT or not self._can_wait(task):
            return False
        return attempt.seconds < self._most_seconds(task) / 2

    def _can_wait(self, task: Task) -> bool:
        """Return True for a first attempt, unless it has little more time than the patience."""
        trial: Trial = task.name
        is_first = not trial.was_postponed and trial.confirms is None
        return is_first and self._most_seconds(task) >= 3 * _PATIENCE

    def _most_seconds(self, task: Task) -> float:
        # Tasks of a reduction have no trial.
        if self.fixed_seconds is not None:
            return self.fixed_seconds
        slowest = self._slowest.get(task.name.cell.kernel.name, 0.0)
        return max(_MINIMUM_TIMEOUT, _SLOWEST_FACTOR * slowest)

    def learn(self, cell: Cell, attempt: Attempt) -> None:
        """Remember the time that a finished cell took."""
        if attempt.outcome is Outcome.FINISHED:
            name = cell.kernel.name
            slowest = self._slowest.get(name, 0.0)
            self._slowest[name] = max(attempt.seconds, slowest)


@dataclass(frozen=True)
class Trial:
    """A task's name: its cell, and the failure that the task is to confirm.

    `confirmations` counts how often that failure was confirmed before, `kind` groups failures that
    may have the same cause.
    """

    cell: Cell
    confirms: Record | None = None
    confirmations: int = 0
    kind: str | None = None
    was_postponed: bool = False


class _Unsent:
    """The tasks that are not with the executor yet, by kind of worker.

    The executor gets only a few more than it runs, so that cells that another process finishes
    meanwhile need not be compiled.
    """

    def __init__(self, tasks: Iterable[Task], width: int) -> None:
        self.shared = False
        self._width = width
        self._tasks: dict[WorkerKind, deque[Task]] = {}
        for task in tasks:
            queue = self._tasks.setdefault(task.kind, deque())
            queue.append(task)
        self._out: Counter[WorkerKind] = Counter()
        self._end_counts: Counter[WorkerKind] = Counter()
        self._started = time.monotonic()

    def share(self, run: str) -> None:
        """Shuffle the tasks, because another process may work on the same cells.

        Each process takes the cells in its own order, so that few are compiled twice.
        """
        if self.shared:
            return
        self.shared = True
        order = random.Random(run)
        for kind, tasks in self._tasks.items():
            shuffled_tasks = list(tasks)
            order.shuffle(shuffled_tasks)
            self._tasks[kind] = deque(shuffled_tasks)

    def blocks(self) -> Iterator[list[Task]]:
        """Yield the tasks to send now, a few at a time, until each kind has enough."""
        for kind, tasks in self._tasks.items():
            while tasks and self._out[kind] < self._enough(kind):
                size = min(_BLOCK, self._width * _EACH_OUT, len(tasks))
                yield [tasks.popleft() for _ in range(size)]

    def count_sent(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._out[task.kind] += 1

    def count_end(self, task: Task) -> None:
        """Count a task that ended; a task that confirms a failure was never counted as sent."""
        if task.name.confirms is None:
            self._out[task.kind] -= 1
            self._end_counts[task.kind] += 1

    def _enough(self, kind: WorkerKind) -> int:
        """Return how many tasks of a kind keep the workers busy for a second.

        If another process may finish the same cells in that second, it is the fewest that keep them
        busy.
        """
        if self.shared:
            return self._width * _EACH_OUT
        seconds = max(time.monotonic() - self._started, 0.1)
        rate = self._end_counts[kind] / seconds
        most = min(_MOST_OUT, int(rate * _SECONDS_OUT))
        return max(self._width * _EACH_OUT, most)


@dataclass
class Loop:
    """Compiles cells for one run. `again` ignores stored records.

    With `binaries`, a cell that compiles without a stored binary is compiled again.
    """

    provider: Provider
    run: str
    sink: Sink
    executor: Executor
    timeouts: Timeouts
    again: bool = False
    binaries: BinarySink | None = None
    # Failures of each kind that did not repeat. The more there are, the more likely the next
    # failure is an accident.
    _accidents: Counter[str | None] = field(default_factory=Counter)
    _postponed: list[Task] = field(default_factory=list)

    def records(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """Yield each cell's record, cached ones first, then in order of completion.

        Every record is in the sink before it is yielded.
        """
        self._accidents.clear()
        cached_keys: set[str] = set()
        if not self.again:
            cached_keys = self._reusable_keys([cell.key for cell in cells])
        tasks: list[Task] = []
        untried_records: list[Record] = []
        for cell in cells:
            if cell.key in cached_keys:
                continue
            plan = self._plan(cell)
            if isinstance(plan, Task):
                tasks.append(plan)
            else:
                untried_records.append(plan)
        self.timeouts.postponable = _MOST_POSTPONED if len(tasks) >= _LONG_RUN else 0
        unsent = _Unsent(tasks, self.executor.width)
        # The workers compile while the stored records are read.
        early_records = list(self._send(unsent))
        yield from self._cached_records([cell.key for cell in cells if cell.key in cached_keys])
        yield from early_records
        self.sink.add_many(self.run, untried_records)
        yield from untried_records
        candidates = SlowCandidates(cells)
        try:
            for results in self._results():
                records: list[Record] = []
                for task, attempt in results:
                    self.timeouts.learn(task.name.cell, attempt)
                    unsent.count_end(task)
                for task, attempt in results:
                    records += self._judge_attempt(task, attempt)
                records = [record for record in records if not candidates.hold(record)]
                self.sink.add_many(self.run, records)
                yield from records
                yield from self._send(unsent)
            yield from self._settle_slow(candidates)
        finally:
            # After an interruption the first compile counts.
            self.sink.add_many(self.run, candidates.held_records.values())

    def _results(self) -> Iterator[list[TaskResult]]:
        """Yield the attempts; those of postponed cells come last."""
        yield from self.executor.results()
        self.timeouts.postponable = 0
        self.executor.submit(self._postponed)
        self._postponed = []
        yield from self.executor.results()

    def _settle_slow(self, candidates: SlowCandidates) -> Iterator[Record]:
        """Yield the held records; slow ones are compiled again, and the quicker compile counts."""
        held_records = candidates.held_records
        slow_keys = candidates.slow_keys(self.sink)
        for key in slow_keys:
            cell = held_records[key].cell
            kind = self.provider.worker_kind(cell)
            assert not isinstance(kind, Unavailable)
            self.executor.submit([Task(Trial(cell), kind, self._request(cell))])
        for key in set(held_records) - slow_keys:
            yield from self._settle(held_records.pop(key))
        for results in self.executor.results():
            for task, attempt in results:
                cell = task.name.cell
                first = held_records.pop(cell.key)
                yield from self._settle(quicker(first, judge.judge(cell, attempt)))

    def _settle(self, record: Record) -> Iterator[Record]:
        """Store a record and yield it."""
        self.sink.add_many(self.run, [record])
        yield record

    def _send(self, unsent: _Unsent) -> Iterator[Record]:
        """Send more tasks; yield the records of cells that another process finished meanwhile."""
        if not self.again and self.sink.others_wrote():
            unsent.share(self.run)
        for block in unsent.blocks():
            cached_keys: set[str] = set()
            if unsent.shared:
                cached_keys = self._reusable_keys([task.name.cell.key for task in block])
                yield from self._cached_records(list(cached_keys))
            tasks = [task for task in block if task.name.cell.key not in cached_keys]
            unsent.count_sent(tasks)
            self.executor.submit(tasks)

    def _reusable_keys(self, keys: Sequence[str]) -> set[str]:
        """Return the keys whose latest record is valid for this run.

        Most verdicts suffice for that; a failure or an unknown depends on its record.
        """
        reusable = set()
        doubtful = []
        for key, verdict in self.sink.latest_verdicts(keys).items():
            if verdict is Verdict.COMPILES and self.binaries and not self.binaries.has(key):
                continue
            if verdict in (Verdict.COMPILES, Verdict.SKIPPED):
                reusable.add(key)
            else:
                doubtful.append(key)
        for start in range(0, len(doubtful), _PAGE):
            for record in self.sink.latest_records(doubtful[start : start + _PAGE]).values():
                if self._is_still_good(record):
                    reusable.add(record.key)
        return reusable

    def _cached_records(self, keys: Sequence[str]) -> Iterator[Record]:
        """Add the latest records of these keys to the run and yield them."""
        for start in range(0, len(keys), _PAGE):
            stored_records = self.sink.latest_records(keys[start : start + _PAGE])
            self.sink.add_cached(self.run, stored_records.values())
            for record in stored_records.values():
                yield record.with_(cached=True)

    def _is_still_good(self, record: Record) -> bool:
        memory_mb = self.provider.memory_mb
        if record.how == Unit.how:
            memory_mb = self.provider.most_memory_mb
        return is_still_good(record, self.timeouts.fixed_seconds, memory_mb)

    def _plan(self, cell: Cell) -> Task | Record:
        refusal = self.provider.refusal(cell)
        if refusal:
            return judge.record_untried(cell, Verdict.SKIPPED, refusal)
        attempt = self.provider.attempt(cell)
        if attempt is not None:
            return judge.judge(cell, attempt)
        kind = self.provider.worker_kind(cell)
        if isinstance(kind, Unavailable):
            return judge.record_untried(cell, kind.verdict, kind.reason, kind.code)
        return Task(Trial(cell), kind, self._request(cell))

    def _request(self, cell: Cell) -> Json:
        own = request(cell)
        if self.binaries is not None and cell.stage == "compile":
            own["binary"] = True
        return own

    def _judge_attempt(self, task: Task, attempt: Attempt) -> Iterator[Record]:
        """Yield the record of an attempt, unless a fresh worker has to confirm its failure.

        A finished compile that exceeds a limit was measured and needs no confirmation.
        """
        trial: Trial = task.name
        cell = trial.cell
        if self.binaries is not None and "binary" in attempt.facts:
            self.binaries.add(cell.key, attempt.facts["binary"])
        record = judge.judge(cell, attempt)
        if record.code == _OUT_OF_MEMORY:
            larger_kind = self.provider.larger_kind(task.kind)
            if larger_kind is not None:
                self.executor.submit([Task(trial, larger_kind, task.request)])
                return
            limit_mb = task.kind.config.get("memory_mb", self.provider.memory_mb)
            record = judge.with_facts(record, {_LIMIT: limit_mb})
        if self.timeouts.is_early(task, attempt):
            self.timeouts.postponable -= 1
            self._postponed.append(replace(task, name=replace(trial, was_postponed=True)))
        elif trial.confirms:
            yield from self._compare_trials(task, trial.confirms, record)
        elif record.verdict is Verdict.FAILS and attempt.outcome is not Outcome.FINISHED:
            # Each failing cell is tried again; a similar failure of another cell does not confirm
            # it. All deaths without a message are of one kind, other failures are grouped by
            # signature.
            kind = record.signature
            if is_silent(attempt):
                kind = None
            self._confirm(task, Trial(cell, record, kind=kind))
        else:
            yield record

    def _confirm(self, task: Task, trial: Trial) -> None:
        repetition = Task(trial, task.kind, task.request, fresh=True)
        self.executor.submit([repetition])

    def _compare_trials(self, task: Task, first: Record, second: Record) -> Iterator[Record]:
        """Yield the verdict after a failure was tried again, or submit another trial."""
        trial: Trial = task.name
        loss = self.provider.loss(trial.cell)
        if loss:
            yield judge.without_verdict(first, loss)
            return
        if (first.verdict, first.signature) != (second.verdict, second.signature):
            self._accidents[trial.kind] += 1
            yield judge.unstable(first, second)
            return
        trial = replace(trial, confirmations=trial.confirmations + 1)
        if trial.confirmations < self._enough_repeats(trial.kind):
            self._confirm(task, trial)
        else:
            yield first

    def _enough_repeats(self, kind: str | None) -> int:
        least = _REPEATS
        if kind is None:
            least = _SILENT_REPEATS
        return min(least + self._accidents[kind], _MOST_REPEATS)


def is_silent(attempt: Attempt) -> bool:
    """Return True if the worker died and the compiler printed no failure."""
    return attempt.outcome is Outcome.DIED and not rules.decisive(attempt.log)


def is_still_good(record: Record, timeout: float | None, memory_mb: int) -> bool:
    """Return True for a verdict, and for an unknown whose limit still holds.

    Every other unknown has its cause in the machine (a compiler that was absent or killed, a
    failure that did not repeat), and that cause may be gone.
    """
    if record.verdict is not Verdict.UNKNOWN:
        return True
    if record.code == "FC901":
        return record.seconds >= (timeout or _MINIMUM_TIMEOUT)
    if record.code == _OUT_OF_MEMORY:
        # A process that the system killed did not reach flacheck's limit.
        facts: Mapping[str, Any] = {}
        if record.findings:
            facts = record.findings[0]["facts"]
        limit: float = facts.get(_LIMIT, memory_mb)
        return not facts.get("killed") and limit >= memory_mb
    return False


def request(cell: Cell) -> Json:
    """Return the worker's request for a cell."""
    launch: Json | None = None
    if cell.launch:
        launch = cell.launch.to_json()
    return {
        "op": cell.stage,
        "kernel": origin_to_json(cell.kernel.origin),
        "card": card(cell.target),
        "target": cell.target,
        "launch": launch,
        "options": dict(cell.options),
        "until": cell.until,
    }


@cache
def card(target: str) -> Json:
    """Return a row of the target table in the guest's form."""
    return asdict(targets.find(target))
