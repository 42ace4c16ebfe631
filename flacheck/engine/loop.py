"""The one loop: cells − done → executor → judge → store, yielding what happens as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from flacheck.engine import judge
from flacheck.engine.executors import Executor, Task
from flacheck.engine.sandbox import WorkerKind
from flacheck.model import Attempt, Cell, Json, Outcome, Record, Verdict
from flacheck.tables import targets

MINIMUM_TIMEOUT = 300.0
SLOWEST_FACTOR = 20
_PAGE = 500


class Sink(Protocol):
    """Where records go; the store, or a list in a test."""

    def done(self, keys: Iterable[str]) -> Mapping[str, Record]: ...

    def add_many(self, run: str, records: Iterable[Record]) -> None: ...

    def add_cached(self, run: str, cells: Iterable[Record]) -> int: ...


@dataclass(frozen=True)
class Untried:
    """Why a toolchain compiles nothing: a verdict for each of its cells."""

    verdict: Verdict
    reason: str
    code: str | None = None


@dataclass
class Timeouts:
    """`--timeout`: a number, or the larger of 300 s and 20 × the kernel's slowest finished cell."""

    fixed: float | None = None
    _slowest: dict[str, float] = field(default_factory=dict)

    def __call__(self, task: Task) -> float:
        if self.fixed is not None:
            return self.fixed
        return max(
            MINIMUM_TIMEOUT, SLOWEST_FACTOR * self._slowest.get(task.name.cell.kernel.name, 0.0)
        )

    def saw(self, cell: Cell, seconds: float) -> None:
        self._slowest[cell.kernel.name] = max(seconds, self._slowest.get(cell.kernel.name, 0.0))


@dataclass(frozen=True)
class Named:
    """A task's name: its cell, and the record that it is to confirm."""

    cell: Cell
    confirms: Record | None = None


@dataclass(frozen=True)
class Question:
    """What to scan. `kind_of` starts a cell's toolchain, or says why it cannot; `refuses` says why
    a toolchain does not know a target; `facts` adds to an autotuner's failure what is known of its
    kernel; `attempts` are those that were made already, by key.
    """

    cells: list[Cell]
    kind_of: Callable[[Cell], WorkerKind | Untried]
    refuses: Callable[[Cell], str | None]
    fresh: bool = False
    retry_after: float | None = None
    facts: Callable[[Cell], Mapping[str, Any]] = lambda cell: {}
    attempts: Mapping[str, Attempt] = field(default_factory=dict)


def scan(
    question: Question, run: str, sink: Sink, executor: Executor, timeouts: Timeouts
) -> Iterator[Record]:
    """Each cell's record, cached ones first, then in order of completion; every one is in the sink
    before it is yielded.
    """
    reused: set[str] = set()
    for record in () if question.fresh else _reusable(question, run, sink):
        reused.add(record.key)
        yield record.with_(cached=True)
    planned = [_plan(question, cell) for cell in question.cells if cell.key not in reused]
    untried = [plan for plan in planned if isinstance(plan, Record)]
    sink.add_many(run, untried)
    yield from untried
    executor.submit(plan for plan in planned if isinstance(plan, Task))
    for records in _settled(question, executor, timeouts):
        sink.add_many(run, records)
        yield from records


def _reusable(question: Question, run: str, sink: Sink) -> Iterator[Record]:
    """The records of earlier runs that answer for this one, a handful in memory at a time."""
    keys = [cell.key for cell in question.cells]
    for start in range(0, len(keys), _PAGE):
        found = sink.done(keys[start : start + _PAGE]).values()
        good = [record for record in found if _still_good(record, question.retry_after)]
        sink.add_cached(run, good)
        yield from good


def _still_good(record: Record, timeout: float | None) -> bool:
    """An unknown is asked again when its cause may be gone: the compiler was absent, or more time
    is given now.
    """
    if record.verdict is not Verdict.UNKNOWN:
        return True
    if record.code == "FC901":
        return timeout is None or record.seconds >= timeout
    return record.code == "FC902" or (record.reason or "").startswith("unstable")


def _plan(question: Question, cell: Cell) -> Task | Record:
    refusal = question.refuses(cell)
    if refusal:
        return judge.untried(cell, Verdict.SKIPPED, refusal)
    if cell.key in question.attempts:
        return judge.judge(cell, question.attempts[cell.key])
    kind = question.kind_of(cell)
    if isinstance(kind, Untried):
        return judge.without_toolchain(cell, kind.verdict, kind.reason, kind.code)
    return Task(Named(cell), kind, request(cell))


def request(cell: Cell) -> Json:
    """What a worker is asked for a cell."""
    return {
        "op": cell.stage,
        "kernel": dict(cell.kernel.origin),
        "card": card(cell.target),
        "launch": cell.launch.to_json() if cell.launch else None,
        "options": dict(cell.options),
        "until": cell.until,
    }


_CARDS: dict[str, Json] = {}


def card(target: str) -> Json:
    """A row of the target table as the guest wants it."""
    if target not in _CARDS:
        _CARDS[target] = asdict(targets.find(target))
    return _CARDS[target]


def _settled(question: Question, executor: Executor, timeouts: Timeouts) -> Iterator[list[Record]]:
    """Records as attempts end; the first failure of each signature and toolchain is confirmed in a
    fresh worker.
    """
    confirmed: set[tuple[str | None, str]] = set()
    for ended in executor.completed():
        for task, attempt in ended:
            _learn(timeouts, task.name.cell, attempt)
        yield [
            record
            for task, attempt in ended
            for record in _settle(question, executor, confirmed, task, attempt)
        ]


def _settle(
    question: Question,
    executor: Executor,
    confirmed: set[tuple[str | None, str]],
    task: Task,
    attempt: Attempt,
) -> Iterator[Record]:
    name: Named = task.name
    record = judge.judge(name.cell, attempt)
    if record.verdict is Verdict.FAILS and name.cell.stage == "autotune":
        record = judge.with_facts(record, question.facts(name.cell))
    identity = (record.signature, record.toolchain)
    if name.confirms:
        yield _confirmed(name.cell, name.confirms, record)
    elif record.verdict is Verdict.FAILS and identity not in confirmed:
        confirmed.add(identity)
        executor.submit([Task(Named(name.cell, record), task.kind, task.request, fresh=True)])
    else:
        yield record


def _learn(timeouts: Timeouts, cell: Cell, attempt: Attempt) -> None:
    if attempt.outcome is Outcome.FINISHED:
        timeouts.saw(cell, attempt.seconds)


def _confirmed(cell: Cell, first: Record, second: Record) -> Record:
    same = (first.verdict, first.signature) == (second.verdict, second.signature)
    return first if same else judge.unstable(cell, first, second)
