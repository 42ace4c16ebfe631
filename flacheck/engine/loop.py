"""The one loop: cells − done → executor → judge → store, yielding records as they are settled."""

import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Protocol

from flacheck import rules
from flacheck.engine import judge
from flacheck.engine.executors import Executor, Task
from flacheck.engine.provider import Provider, Untried
from flacheck.engine.sandbox import WorkerKind
from flacheck.model import Attempt, Cell, Json, Outcome, Record, Verdict
from flacheck.model.kernel import origin_to_json
from flacheck.tables import targets

# Seconds that any cell may take before a time-out is counted: slow assemblers took up to 90 s.
_MINIMUM_TIMEOUT = 300.0
# What a record holds that met the limit of memory: the code, and the limit among its facts.
_OUT_OF_MEMORY, _LIMIT = "FC902", "memory_mb"
# How many times its slowest finished cell a kernel's other cells may take.
_SLOWEST_FACTOR = 20
# How often a failure has to repeat before it is one: a death without a word more often, for anybody
# could have sent the signal. Once more for each of its kind that was an accident, up to the most.
_REPEATS, _SILENT_REPEATS, _MOST_REPEATS = 1, 2, 6
# Tasks that are looked up and sent together; how many of a kind are with the executor, in seconds
# of its work, for each of its workers, and at the most.
_BLOCK, _SECONDS_OUT, _EACH_OUT, _MOST_OUT = 8, 1, 2, 4096
# Keys that are looked up in the store at once: few records are in memory at a time.
_PAGE = 500


class Sink(Protocol):
    """Where records go: the store, or a list in a test."""

    def latest_records(self, keys: Iterable[str]) -> Mapping[str, Record]: ...

    def add_many(self, run: str, records: Iterable[Record]) -> None: ...

    def add_cached(self, run: str, cells: Iterable[Record]) -> int: ...

    def others_wrote(self) -> bool: ...


@dataclass
class Timeouts:
    """`--timeout`: a number of seconds, or the larger of 300 s and 20 × the kernel's slowest
    finished cell."""

    fixed: float | None = None
    _slowest: dict[str, float] = field(default_factory=dict)

    def __call__(self, task: Task) -> float:
        if self.fixed is not None:
            return self.fixed
        slowest = self._slowest.get(task.name.cell.kernel.name, 0.0)
        return max(_MINIMUM_TIMEOUT, _SLOWEST_FACTOR * slowest)

    def learn(self, cell: Cell, attempt: Attempt) -> None:
        """Remember how long a finished cell took."""
        if attempt.outcome is Outcome.FINISHED:
            name = cell.kernel.name
            self._slowest[name] = max(attempt.seconds, self._slowest.get(name, 0.0))


@dataclass(frozen=True)
class Trial:
    """A task's name: its cell, the record of its failure that the task is to confirm, how often
    that was confirmed already, and which of its kind it is."""

    cell: Cell
    confirms: Record | None = None
    confirmed: int = 0
    kind: str | None = None


class _Left:
    """The tasks that the executor was not given yet, by kind of worker: a few more than it is at
    work on, so that those that another process settles in the meantime are left out."""

    def __init__(self, tasks: Iterable[Task], width: int) -> None:
        self.shared = False
        self._width = width
        self._tasks: dict[WorkerKind, deque[Task]] = {}
        for task in tasks:
            self._tasks.setdefault(task.kind, deque()).append(task)
        self._out: Counter[WorkerKind] = Counter()
        self._ended: Counter[WorkerKind] = Counter()
        self._started = time.monotonic()

    def share(self, run: str) -> None:
        """Another process works on cells of the same store, perhaps on these: from now on each
        takes them in an order of its own, that few are compiled twice."""
        if self.shared:
            return
        self.shared = True
        order = random.Random(run)
        for kind, tasks in self._tasks.items():
            mixed = list(tasks)
            order.shuffle(mixed)
            self._tasks[kind] = deque(mixed)

    def blocks(self) -> Iterator[list[Task]]:
        """What to send now: a few tasks at a time, until enough of each kind are out."""
        for kind, tasks in self._tasks.items():
            while tasks and self._out[kind] < self._enough(kind):
                size = min(_BLOCK, self._width * _EACH_OUT, len(tasks))
                yield [tasks.popleft() for _ in range(size)]

    def sent(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._out[task.kind] += 1

    def done(self, task: Task) -> None:
        """A task ended; one that was to confirm another was never counted as sent."""
        if task.name.confirms is None:
            self._out[task.kind] -= 1
            self._ended[task.kind] += 1

    def _enough(self, kind: WorkerKind) -> int:
        """What the workers get through in a second; no more than keeps them busy where another
        process may settle the same cells in that second."""
        if self.shared:
            return self._width * _EACH_OUT
        rate = self._ended[kind] / max(time.monotonic() - self._started, 0.1)
        return max(self._width * _EACH_OUT, min(_MOST_OUT, int(rate * _SECONDS_OUT)))


@dataclass
class Loop:
    """Compiles cells for one run. `again` ignores what the store holds of them."""

    provider: Provider
    run: str
    sink: Sink
    executor: Executor
    timeouts: Timeouts
    again: bool = False
    # Failures of each kind that did not repeat: the more, the likelier is the next one an accident.
    _accidents: Counter[str | None] = field(default_factory=Counter)

    def records(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """Each cell's record, cached ones first, then in order of completion; every one is in the
        sink before it is yielded."""
        self._accidents.clear()
        reused: set[str] = set()
        if not self.again:
            for record in self._reusable(cells):
                reused.add(record.key)
                yield record.with_(cached=True)
        planned = [self._planned(cell) for cell in cells if cell.key not in reused]
        settled = [record for record in planned if isinstance(record, Record)]
        self.sink.add_many(self.run, settled)
        yield from settled
        tasks = [task for task in planned if isinstance(task, Task)]
        left = _Left(tasks, self.executor.width)
        yield from self._send(left)
        for ended in self.executor.completed():
            for task, attempt in ended:
                self.timeouts.learn(task.name.cell, attempt)
                left.done(task)
            records = [r for task, attempt in ended for r in self._settled(task, attempt)]
            self.sink.add_many(self.run, records)
            yield from records
            yield from self._send(left)

    def _send(self, left: _Left) -> Iterator[Record]:
        """Give the executor more to do, but no cell that another process has settled meanwhile:
        the records of these."""
        if not self.again and self.sink.others_wrote():
            left.share(self.run)
        for block in left.blocks():
            reused: set[str] = set()
            if left.shared:
                for record in self._reusable([task.name.cell for task in block]):
                    reused.add(record.key)
                    yield record.with_(cached=True)
            tasks = [task for task in block if task.name.cell.key not in reused]
            left.sent(tasks)
            self.executor.submit(tasks)

    def _reusable(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """The records of earlier runs that answer for this one."""
        keys = [cell.key for cell in cells]
        for start in range(0, len(keys), _PAGE):
            stored = self.sink.latest_records(keys[start : start + _PAGE]).values()
            fixed, memory_mb = self.timeouts.fixed, self.provider.memory_mb
            good = [record for record in stored if _still_good(record, fixed, memory_mb)]
            self.sink.add_cached(self.run, good)
            yield from good

    def _planned(self, cell: Cell) -> Task | Record:
        refusal = self.provider.refusal(cell)
        if refusal:
            return judge.untried(cell, Verdict.SKIPPED, refusal)
        attempt = self.provider.attempt(cell)
        if attempt is not None:
            return judge.judge(cell, attempt)
        kind = self.provider.worker_kind(cell)
        if isinstance(kind, Untried):
            return judge.untried(cell, kind.verdict, kind.reason, kind.code)
        return Task(Trial(cell), kind, request(cell))

    def _settled(self, task: Task, attempt: Attempt) -> Iterator[Record]:
        """The record of an attempt, or none yet when a fresh worker is asked to confirm it. What
        finished and is too large was measured, and is no accident."""
        trial: Trial = task.name
        cell = trial.cell
        record = judge.judge(cell, attempt)
        if record.verdict is Verdict.FAILS and cell.stage == "autotune":
            record = judge.with_facts(record, self.provider.facts(cell))
        if record.code == _OUT_OF_MEMORY:
            record = judge.with_facts(record, {_LIMIT: self.provider.memory_mb})
        if trial.confirms:
            yield from self._tried_again(task, trial.confirms, record)
        elif record.verdict is Verdict.FAILS and attempt.outcome is not Outcome.FINISHED:
            # Every cell's own failure is seen again: another cell that fails alike vouches for
            # nothing. Deaths without a word are all of one kind, the others of their signature's.
            kind = None if is_silent(attempt) else record.signature
            self._confirm(task, Trial(cell, record, kind=kind))
        else:
            yield record

    def _confirm(self, task: Task, trial: Trial) -> None:
        self.executor.submit([Task(trial, task.kind, task.request, fresh=True)])

    def _tried_again(self, task: Task, first: Record, second: Record) -> Iterator[Record]:
        """A failure was tried once more: the same again, or an accident."""
        trial: Trial = task.name
        loss = self.provider.loss(trial.cell)
        if loss:
            yield judge.without_verdict(first, loss)
            return
        if (first.verdict, first.signature) != (second.verdict, second.signature):
            self._accidents[trial.kind] += 1
            yield judge.unstable(first, second)
            return
        trial = replace(trial, confirmed=trial.confirmed + 1)
        if trial.confirmed < self._enough_repeats(trial.kind):
            self._confirm(task, trial)
        else:
            yield first

    def _enough_repeats(self, kind: str | None) -> int:
        least = _SILENT_REPEATS if kind is None else _REPEATS
        return min(least + self._accidents[kind], _MOST_REPEATS)


def is_silent(attempt: Attempt) -> bool:
    """Whether the worker ended, by a signal or not, and the compiler said nothing of a failure."""
    return attempt.outcome is Outcome.DIED and not rules.decisive(attempt.log)


def _still_good(record: Record, timeout: float | None, memory_mb: int) -> bool:
    """Return True for a verdict, and for an unknown that met a limit which still holds.

    Every other unknown has its cause in the machine (a compiler that was absent or killed, a
    failure that did not repeat), which may be gone.
    """
    if record.verdict is not Verdict.UNKNOWN:
        return True
    if record.code == "FC901":
        return record.seconds >= (timeout or _MINIMUM_TIMEOUT)
    if record.code == _OUT_OF_MEMORY:
        # What the system killed met no limit of ours. Older records name no limit.
        if any(finding["facts"].get("killed") for finding in record.findings[:1]):
            return False
        limits = [finding["facts"].get(_LIMIT, memory_mb) for finding in record.findings[:1]]
        return all(limit >= memory_mb for limit in limits)
    return False


def request(cell: Cell) -> Json:
    """What a worker is asked for a cell."""
    return {
        "op": cell.stage,
        "kernel": origin_to_json(cell.kernel.origin),
        "card": card(cell.target),
        "target": cell.target,
        "launch": cell.launch.to_json() if cell.launch else None,
        "options": dict(cell.options),
        "until": cell.until,
    }


@cache
def card(target: str) -> Json:
    """A row of the target table as the guest takes it."""
    return asdict(targets.find(target))
