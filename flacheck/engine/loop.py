"""The one loop: cells − done → executor → judge → store, yielding records as they are settled."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Protocol

from flacheck.engine import judge
from flacheck.engine.executors import Executor, Task
from flacheck.engine.provider import Provider, Untried
from flacheck.model import Attempt, Cell, Json, Outcome, Record, Verdict
from flacheck.model.kernel import origin_to_json
from flacheck.tables import targets

# Seconds that any cell may take before a time-out is counted: slow assemblers took up to 90 s.
_MINIMUM_TIMEOUT = 300.0
# How many times its slowest finished cell a kernel's other cells may take.
_SLOWEST_FACTOR = 20
# Keys that are looked up in the store at once: few records are in memory at a time.
_PAGE = 500


class Sink(Protocol):
    """Where records go: the store, or a list in a test."""

    def done(self, keys: Iterable[str]) -> Mapping[str, Record]: ...

    def add_many(self, run: str, records: Iterable[Record]) -> None: ...

    def add_cached(self, run: str, cells: Iterable[Record]) -> int: ...


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
    """A task's name: its cell, and the record that the task is to confirm."""

    cell: Cell
    confirms: Record | None = None


@dataclass
class Loop:
    """Compiles cells for one run. `again` ignores what the store holds of them."""

    provider: Provider
    run: str
    sink: Sink
    executor: Executor
    timeouts: Timeouts
    again: bool = False
    # A failure is confirmed once for each signature and toolchain, whichever call met it first.
    _confirmed: set[tuple[str | None, str]] = field(default_factory=set)

    def records(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """Each cell's record, cached ones first, then in order of completion; every one is in the
        sink before it is yielded."""
        self._confirmed.clear()
        reused: set[str] = set()
        if not self.again:
            for record in self._reusable(cells):
                reused.add(record.key)
                yield record.with_(cached=True)
        planned = [self._planned(cell) for cell in cells if cell.key not in reused]
        settled = [record for record in planned if isinstance(record, Record)]
        self.sink.add_many(self.run, settled)
        yield from settled
        self.executor.submit(task for task in planned if isinstance(task, Task))
        for ended in self.executor.completed():
            for task, attempt in ended:
                self.timeouts.learn(task.name.cell, attempt)
            records = [r for task, attempt in ended for r in self._settled(task, attempt)]
            self.sink.add_many(self.run, records)
            yield from records

    def _reusable(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """The records of earlier runs that answer for this one."""
        keys = [cell.key for cell in cells]
        for start in range(0, len(keys), _PAGE):
            stored = self.sink.done(keys[start : start + _PAGE]).values()
            good = [record for record in stored if _still_good(record, self.timeouts.fixed)]
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
        """The record of an attempt, or none yet when a fresh worker is asked to confirm it."""
        trial: Trial = task.name
        cell = trial.cell
        record = judge.judge(cell, attempt)
        if record.verdict is Verdict.FAILS and cell.stage == "autotune":
            record = judge.with_facts(record, self.provider.facts(cell))
        identity = (record.signature, record.toolchain)
        if trial.confirms:
            yield _confirmed(trial.confirms, record)
        elif record.verdict is Verdict.FAILS and identity not in self._confirmed:
            self._confirmed.add(identity)
            self.executor.submit([Task(Trial(cell, record), task.kind, task.request, fresh=True)])
        else:
            yield record


def _still_good(record: Record, timeout: float | None) -> bool:
    """An unknown is asked again when its cause may be gone: the compiler was absent, or more time
    is given now."""
    if record.verdict is not Verdict.UNKNOWN:
        return True
    if record.code == "FC901":
        return record.seconds >= (timeout or _MINIMUM_TIMEOUT)
    return record.code == "FC902" or (record.reason or "").startswith("unstable")


def _confirmed(first: Record, second: Record) -> Record:
    if (first.verdict, first.signature) == (second.verdict, second.signature):
        return first
    return judge.unstable(first, second)


def request(cell: Cell) -> Json:
    """What a worker is asked for a cell."""
    return {
        "op": cell.stage,
        "kernel": origin_to_json(cell.kernel.origin),
        "card": card(cell.target),
        "launch": cell.launch.to_json() if cell.launch else None,
        "options": dict(cell.options),
        "until": cell.until,
    }


@cache
def card(target: str) -> Json:
    """A row of the target table as the guest takes it."""
    return asdict(targets.find(target))
