"""Where tasks run. `LocalPool` keeps warm workers on this machine; others can take its place.

A task and an attempt are plain values that travel. An executor knows neither rules nor reports.
"""

import selectors
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from flacheck.engine.sandbox import Worker, WorkerKind
from flacheck.model import Attempt, Json, Outcome

# Requests that a worker has waiting, so that it never waits for this process; many where each takes
# less time than its way here and back.
_AHEAD, _AHEAD_OF_QUICK = 2, 16
# Seconds below which an attempt is quick.
_QUICK = 0.02
# Seconds between two looks at the time-outs.
_TICK = 0.5
# Starts that may fail in a row: one may be an accident, three are the compiler's own doing.
_STILLBORN = 3
# How much of a worker's pace the last attempt decides.
_LATEST = 0.2


@dataclass(frozen=True)
class Task:
    """A request for a kind of worker. `name` is the caller's own; `fresh` asks for a worker that
    has done nothing yet (a warm fork)."""

    name: Any
    kind: WorkerKind
    request: Mapping[str, Any]
    fresh: bool = False


_NOTHING: deque[Task] = deque(maxlen=0)
Ended = tuple[Task, Attempt]


class Executor(Protocol):
    """Tasks in, attempts out in order of completion, those that ended together in one list; more
    tasks may be submitted while they come."""

    def submit(self, tasks: Iterable[Task]) -> None: ...

    def completed(self) -> Iterator[list[Ended]]: ...

    def close(self) -> None: ...


@dataclass
class _Slot:
    """One worker at a time and the tasks it was sent, oldest first."""

    worker: Worker | None = None
    sent: deque[tuple[int, Task]] = field(default_factory=deque)
    ready: bool = False
    since: float = 0.0
    timed_out: bool = False
    stillborn: int = 0
    pace: float = 1.0

    @property
    def ahead(self) -> int:
        """How many requests to have waiting at the worker: many where each takes no time."""
        return _AHEAD_OF_QUICK if self.pace < _QUICK else _AHEAD


class LocalPool:
    """`jobs` workers on this machine, each of one kind until that kind's tasks run out."""

    def __init__(self, jobs: int, timeout: Callable[[Task], float]) -> None:
        self._slots = [_Slot() for _ in range(jobs)]
        self._timeout = timeout
        self._waiting: dict[WorkerKind, deque[Task]] = {}
        self._selector = selectors.DefaultSelector()
        self._ids = 0

    def submit(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            queue = self._waiting.setdefault(task.kind, deque())
            if task.fresh:
                queue.appendleft(task)
            else:
                queue.append(task)

    def completed(self) -> Iterator[list[Ended]]:
        """Attempts as they end; stops when nothing waits and nothing runs."""
        while self._fill():
            ended: list[Ended] = []
            for key, _ in self._selector.select(_TICK):
                slot = key.data
                ended += self._event(slot)
                # All that the worker has said so far.
                while slot.worker and slot.worker.has_event():
                    ended += self._event(slot)
            self._enforce_time()
            if ended:
                yield ended

    def close(self) -> None:
        for slot in self._slots:
            self._retire(slot)
        self._selector.close()

    def _fill(self) -> bool:
        """Give every slot something to do; False when there is nothing left at all."""
        for slot in self._slots:
            if not slot.sent:
                if not self._queue(slot):
                    self._hire(slot)
                if self._queue(slot):
                    self._send(slot)
        for slot in self._slots:
            # One more ahead, so that no worker waits for us; not of the last ones, which others
            # could take.
            enough = len(self._slots) * slot.ahead
            while len(slot.sent) < slot.ahead and len(self._queue(slot)) >= enough:
                self._send(slot)
        return any(slot.sent for slot in self._slots)

    def _queue(self, slot: _Slot) -> deque[Task]:
        """What waits for the slot's kind of worker."""
        if slot.worker is None:
            return _NOTHING
        return self._waiting.get(slot.worker.kind, _NOTHING)

    def _hire(self, slot: _Slot) -> None:
        """A worker of the kind with the most work and the fewest workers on it."""
        kinds = [kind for kind, queue in self._waiting.items() if queue]
        if not kinds:
            return
        self._retire(slot)
        busy = [other.worker.kind for other in self._slots if other.worker]
        kind = max(kinds, key=lambda kind: (-busy.count(kind), len(self._waiting[kind])))
        slot.worker = Worker(kind)
        slot.ready, slot.since, slot.stillborn = False, time.monotonic(), 0
        self._selector.register(slot.worker, selectors.EVENT_READ, slot)

    def _retire(self, slot: _Slot) -> None:
        if slot.worker:
            self._selector.unregister(slot.worker)
            slot.worker.close()
            slot.worker = None

    def _send(self, slot: _Slot) -> None:
        """Send the next of what waits for the slot's worker."""
        assert slot.worker
        task = self._queue(slot).popleft()
        self._ids += 1
        if not slot.sent and slot.ready:
            slot.since = time.monotonic()
        slot.sent.append((self._ids, task))
        request = {**task.request, "id": self._ids, "timeout": self._timeout(task)}
        slot.worker.send(request, task.fresh)

    def _event(self, slot: _Slot) -> Iterator[Ended]:
        assert slot.worker
        event = slot.worker.receive()
        kind = event["event"]
        if kind == "ready":
            slot.ready, slot.since = True, time.monotonic()
        elif kind == "answer":
            yield self._finish(slot, Attempt.from_json(event["attempt"]))
        elif kind == "exit":
            yield from self._exit(slot, event)
        elif kind == "broken":
            yield from self._abandon(slot, event["log"])
        elif kind == "gone":
            yield from self._gone(slot)

    def _finish(self, slot: _Slot, attempt: Attempt) -> Ended:
        _, task = slot.sent.popleft()
        slot.pace += _LATEST * (attempt.seconds - slot.pace)
        slot.since, slot.stillborn, slot.timed_out = time.monotonic(), 0, False
        return task, attempt

    def _exit(self, slot: _Slot, event: Json) -> Iterator[Ended]:
        """A worker ended: in the middle of a request, or between two (recycled: no matter)."""
        if slot.sent and event["request"] == slot.sent[0][0]:
            yield self._finish(slot, _died(event, slot))
        elif not event["done"] and not event["signal"] and event["exit_code"] == 1:
            slot.stillborn += 1
            if slot.stillborn >= _STILLBORN:
                yield from self._abandon(slot, event["log"])

    def _gone(self, slot: _Slot) -> Iterator[Ended]:
        """Somebody killed the server: what it had not finished goes to another one, once."""
        again = [task for _, task in slot.sent]
        slot.sent.clear()
        self._retire(slot)
        slot.stillborn += 1
        if slot.stillborn >= _STILLBORN:
            log = "the worker's server was killed again and again"
            yield from ((task, Attempt(Outcome.NOT_STARTED, log=log)) for task in again)
        elif again:
            self._waiting[again[0].kind].extendleft(reversed(again))

    def _abandon(self, slot: _Slot, log: str) -> Iterator[Ended]:
        """The compiler does not even start: so do none of the tasks for it."""
        assert slot.worker
        lost = [task for _, task in slot.sent] + list(self._waiting.pop(slot.worker.kind, ()))
        slot.sent.clear()
        self._retire(slot)
        for task in lost:
            yield task, Attempt(Outcome.NOT_STARTED, stage="start", log=log)

    def _enforce_time(self) -> None:
        for slot in self._slots:
            if slot.sent and slot.worker and slot.ready:
                limit = self._timeout(slot.sent[0][1])
                if time.monotonic() - slot.since > limit:
                    slot.timed_out = True
                    slot.worker.kill()


def _died(event: Json, slot: _Slot) -> Attempt:
    assert slot.worker
    outcome, signal = Outcome.DIED, event["signal"]
    # A compiler denied its memory may also fault without a word: only how much it held tells.
    limit = slot.worker.kind.config.get("memory_mb", 0)
    silent = signal == "SIGSEGV" and not event["log"].strip()
    if slot.timed_out:
        # The signal is flacheck's own.
        outcome, signal = Outcome.TIMED_OUT, None
    elif silent and 0 < limit / 2 < event["peak_mb"]:
        outcome = Outcome.OUT_OF_MEMORY
    return Attempt(
        outcome=outcome,
        stage=event["stage"],
        exit_code=event["exit_code"],
        signal=signal,
        log=event["log"],
        seconds=time.monotonic() - slot.since,
        peak_mb=event["peak_mb"],
    )
