"""Where tasks run. `LocalPool` keeps warm workers on this machine; others can take its place.

A task and an attempt are plain values that travel. An executor knows neither rules nor reports.
"""

import contextlib
import math
import os
import selectors
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
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
# Workers and servers that may be lost over one task before it is given up.
_TRIES = 3
# Seconds that a compiler may take to be imported, beyond a task's own time.
_START = 10.0
# Seconds that a server has to report the end of a worker that was killed.
_GRACE = 3.0
# Signals that no compiler ends itself with: somebody else ended the worker, the kernel included.
_FROM_OUTSIDE = frozenset("SIGKILL SIGTERM SIGINT SIGHUP SIGQUIT SIGPIPE SIGUSR1 SIGUSR2".split())
# The limit on processor time, with which flacheck bounds an assembler that outlives its worker.
_OUT_OF_TIME = "SIGXCPU"
# The counter of processes that the system ended for want of memory, in containers too.
_VMSTAT, _OOM_KILLS = Path("/proc/vmstat"), "oom_kill"
# The exit code of a worker whose socket was closed within it (`UNHEARD` of the guest's server).
_UNHEARD = 76
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


TaskResult = tuple[Task, Attempt]


class Executor(Protocol):
    """Tasks in, attempts out in order of completion, those that ended together in one list; more
    tasks may be submitted while they come. `width` is how many it does at a time."""

    width: int

    def submit(self, tasks: Iterable[Task]) -> None: ...

    def results(self) -> Iterator[list[TaskResult]]: ...

    def close(self) -> None: ...


@dataclass
class _Queued:
    """A task on its way: the number it was last sent under, and how many workers and servers were
    lost over it."""

    task: Task
    number: int = 0
    lost: int = 0


_NOTHING: deque[_Queued] = deque(maxlen=0)


@dataclass
class _Slot:
    """One worker at a time and the jobs it was sent, oldest first.

    `since` is when the oldest one's time began. `condemned` is the number of the job for whose
    time-out the worker was killed, at `killed`.
    """

    worker: Worker | None = None
    sent: deque[_Queued] = field(default_factory=deque)
    ready: bool = False
    since: float = 0.0
    condemned: int | None = None
    killed: float = 0.0
    stillborn: int = 0
    pace: float = 1.0

    @property
    def ahead(self) -> int:
        """How many requests to have waiting at the worker: many where each takes no time."""
        return _AHEAD_OF_QUICK if self.pace < _QUICK else _AHEAD

    def restart_clock(self) -> None:
        """The next job's time begins."""
        self.since, self.condemned = time.monotonic(), None


class LocalPool:
    """`jobs` workers on this machine, each of one kind until that kind's tasks run out.

    Every task ends in an attempt, whatever becomes of worker and server: within its time-out and a
    few seconds.
    """

    def __init__(
        self, jobs: int, timeout: Callable[[Task], float], memory_mb: float | None = None
    ) -> None:
        self.width = jobs
        # What all workers may hold together; only kinds that say what they need are counted.
        self._memory_mb = machine_memory_mb() if memory_mb is None else memory_mb
        self._slots = [_Slot() for _ in range(jobs)]
        self._timeout = timeout
        self._waiting: dict[WorkerKind, deque[_Queued]] = {}
        self._selector = selectors.DefaultSelector()
        self._numbers = 0
        self._ended: list[TaskResult] = []
        # Kinds of which a server has started, and how many in a row did not.
        self._started: set[WorkerKind] = set()
        self._failed_starts: Counter[WorkerKind] = Counter()
        self._oom_kills = oom_kills()

    def submit(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            queue = self._queue(task.kind)
            if task.fresh:
                queue.appendleft(_Queued(task))
            else:
                queue.append(_Queued(task))

    def results(self) -> Iterator[list[TaskResult]]:
        """Attempts as they end; stops when nothing waits and nothing runs."""
        while self._fill() or self._ended:
            pause = 0.0 if self._ended else _TICK
            for key, _ in self._selector.select(pause):
                slot = key.data
                self._event(slot)
                # All that the worker has said so far.
                while slot.worker and slot.worker.has_event():
                    self._event(slot)
            self._enforce_time()
            if self._ended:
                ended, self._ended = self._ended, []
                yield ended

    def close(self) -> None:
        for slot in self._slots:
            self._retire(slot)
        self._selector.close()

    # What waits, and who does it

    def _fill(self) -> bool:
        """Give every slot something to do; False when there is nothing left at all."""
        for slot in self._slots:
            if not slot.sent:
                if not self._queue_of(slot):
                    self._hire(slot)
                if self._queue_of(slot) and not self._send(slot):
                    # Full of what nobody reads, and nothing of it is ours.
                    assert slot.worker
                    self._failed_to_start(slot.worker.kind, "it takes no request", slot)
        for slot in self._slots:
            # One more ahead, so that no worker waits for us; not of the last ones, which others
            # could take.
            enough = len(self._slots) * slot.ahead
            while len(slot.sent) < slot.ahead and len(self._queue_of(slot)) >= enough:
                if not self._send(slot):
                    break
        return any(slot.sent for slot in self._slots) or any(self._waiting.values())

    def _queue(self, kind: WorkerKind) -> deque[_Queued]:
        return self._waiting.setdefault(kind, deque())

    def _queue_of(self, slot: _Slot) -> deque[_Queued]:
        """What waits for the slot's kind of worker."""
        if slot.worker is None:
            return _NOTHING
        return self._waiting.get(slot.worker.kind, _NOTHING)

    def _hire(self, slot: _Slot) -> None:
        """A worker of the kind with the most work and the fewest workers on it."""
        kinds = [kind for kind, queue in self._waiting.items() if queue and self._fits(kind, slot)]
        if not kinds:
            return
        self._retire(slot)
        busy = [other.worker.kind for other in self._slots if other.worker]
        kind = max(kinds, key=lambda kind: (-busy.count(kind), len(self._waiting[kind])))
        try:
            slot.worker = Worker(kind)
        except OSError as error:
            # The system has no process, no memory or no folder left for it.
            self._failed_to_start(kind, f"it cannot be started: {error}")
            return
        slot.ready, slot.stillborn = False, 0
        slot.restart_clock()
        self._selector.register(slot.worker, selectors.EVENT_READ, slot)

    def _fits(self, kind: WorkerKind, slot: _Slot) -> bool:
        """Whether the machine's memory holds one more worker of a kind, in place of the slot's own;
        a single one may always try."""
        others = [each.worker for each in self._slots if each is not slot and each.worker]
        taken = sum(worker.kind.needs_mb for worker in others)
        return taken == 0 or taken + kind.needs_mb <= self._memory_mb

    def _retire(self, slot: _Slot) -> None:
        if slot.worker:
            self._selector.unregister(slot.worker)
            slot.worker.close()
            slot.worker = None

    def _send(self, slot: _Slot) -> bool:
        """Send the next of what waits for the slot's worker; False when it takes no more."""
        assert slot.worker
        job = self._queue_of(slot)[0]
        self._numbers += 1
        job.number = self._numbers
        request = {**job.task.request, "id": job.number, "timeout": self._timeout(job.task)}
        if not slot.worker.send(request, job.task.fresh):
            return False
        self._queue_of(slot).popleft()
        if not slot.sent and slot.ready:
            slot.restart_clock()
        slot.sent.append(job)
        return True

    # What workers and servers say

    def _event(self, slot: _Slot) -> None:
        assert slot.worker
        event = slot.worker.receive()
        kind = event["event"]
        if kind == "ready":
            slot.ready = True
            slot.restart_clock()
            self._started.add(slot.worker.kind)
            self._failed_starts[slot.worker.kind] = 0
        elif kind == "answer":
            self._answer(slot, event)
        elif kind == "exit":
            self._exit(slot, event)
        elif kind == "broken":
            self._abandon(slot.worker.kind, event["log"], slot)
        elif kind == "garbled":
            self._lose(slot, event["log"])
        elif kind == "gone" and slot.ready:
            self._lose(slot, "the worker's server was killed")
        elif kind == "gone":
            self._failed_to_start(slot.worker.kind, "it ended without a word", slot)

    def _answer(self, slot: _Slot, event: Json) -> None:
        # A worker that died over a request may leave it to its heir, who does it in vain.
        if not slot.sent or event["request"] != slot.sent[0].number:
            return
        try:
            attempt = Attempt.from_json(event["attempt"])
        except (ValueError, TypeError) as error:
            self._lose(slot, f"an answer of no known form: {error}")
            return
        if not all(map(_is_amount, (attempt.seconds, attempt.cpu_seconds, attempt.peak_mb or 0.0))):
            self._lose(slot, "an answer with times or sizes that are none")
            return
        self._finish(slot, attempt)

    def _finish(self, slot: _Slot, attempt: Attempt) -> None:
        job = slot.sent.popleft()
        slot.pace += _LATEST * (attempt.seconds - slot.pace)
        slot.stillborn = 0
        slot.restart_clock()
        if attempt.outcome is not Outcome.FINISHED and not attempt.oom_killed:
            attempt = replace(attempt, oom_killed=self._is_memory_short(attempt))
        self._ended.append((job.task, attempt))

    def _is_memory_short(self, attempt: Attempt) -> bool:
        """Return True if the system has ended a process for want of memory since this was called
        last, or if the attempt held more than half of the memory that there is."""
        before, self._oom_kills = self._oom_kills, oom_kills()
        return self._oom_kills > before or (attempt.peak_mb or 0.0) > machine_memory_mb() / 2

    def _exit(self, slot: _Slot, event: Json) -> None:
        """A worker ended: in the middle of a request, or between two (recycled: no matter)."""
        job = slot.sent[0] if slot.sent else None
        condemned, slot.condemned = slot.condemned, None
        if job is not None and event["request"] == job.number:
            self._died(slot, job, event, condemned)
        elif job is not None and condemned == job.number:
            # It hung before it took the request, which its heir would take and hang over.
            self._give_up(slot, Attempt(Outcome.TIMED_OUT, seconds=time.monotonic() - slot.since))
        elif not event["done"] and not event["signal"] and event["exit_code"] == 1:
            slot.stillborn += 1
            if slot.stillborn >= _STILLBORN:
                assert slot.worker
                self._abandon(slot.worker.kind, event["log"], slot)

    def _died(self, slot: _Slot, job: _Queued, event: Json, condemned: int | None) -> None:
        """The worker ended in the middle of the job."""
        attempt = _obituary(slot, event, time.monotonic() - slot.since)
        outside = event["signal"] in _FROM_OUTSIDE or event["exit_code"] == _UNHEARD
        if condemned == job.number or event["signal"] == _OUT_OF_TIME:
            # The signal is flacheck's own.
            self._finish(slot, replace(attempt, outcome=Outcome.TIMED_OUT, signal=None))
        elif condemned is not None:
            # Killed for the time of the job before, which was done in that moment.
            slot.sent.popleft()
            self._again(slot, [job])
        elif outside and job.lost + 1 < _TRIES:
            job.lost += 1
            slot.sent.popleft()
            self._again(slot, [job])
        elif outside and event["signal"] == "SIGKILL" and self._is_memory_short(attempt):
            self._finish(slot, replace(attempt, outcome=Outcome.OUT_OF_MEMORY, oom_killed=True))
        elif outside:
            how = event["signal"] or "a socket that was closed"
            log = f"{event['log']}\nits worker was ended by {how} {_TRIES} times"
            self._finish(slot, replace(attempt, outcome=Outcome.LOST, log=log))
        else:
            self._finish(slot, attempt)

    def _again(self, slot: _Slot, jobs: list[_Queued]) -> None:
        """Jobs of a slot that lost them, before all others of their kind."""
        for job in reversed(jobs):
            self._queue(job.task.kind).appendleft(job)
        slot.restart_clock()

    # What is given up

    def _lose(self, slot: _Slot, why: str) -> None:
        """The server is gone, or speaks in tongues: what it had not finished goes to another one,
        the job in work a few times only."""
        if slot.sent:
            slot.sent[0].lost += 1
            if slot.sent[0].lost >= _TRIES:
                log = f"{why}, {_TRIES} times"
                self._ended.append((slot.sent.popleft().task, Attempt(Outcome.LOST, log=log)))
        self._dismiss(slot)

    def _give_up(self, slot: _Slot, attempt: Attempt) -> None:
        """The job in work comes to this; the server ends, and the others go to another one."""
        self._ended.append((slot.sent.popleft().task, attempt))
        self._dismiss(slot)

    def _dismiss(self, slot: _Slot) -> None:
        """End the server at once; what it was sent waits again."""
        if slot.worker:
            slot.worker.end()
        jobs = list(slot.sent)
        slot.sent.clear()
        self._again(slot, jobs)
        self._retire(slot)

    def _failed_to_start(self, kind: WorkerKind, why: str, slot: _Slot | None = None) -> None:
        """A few times another start is tried."""
        if slot is not None:
            self._dismiss(slot)
        self._failed_starts[kind] += 1
        if self._failed_starts[kind] >= _STILLBORN:
            self._abandon(kind, why)

    def _abandon(self, kind: WorkerKind, log: str, slot: _Slot | None = None) -> None:
        """The compiler does not even start: so do none of the tasks for it."""
        if slot is not None:
            self._dismiss(slot)
        attempt = Attempt(Outcome.NOT_STARTED, stage="start", log=log)
        self._ended += [(job.task, attempt) for job in self._waiting.pop(kind, ())]

    def _enforce_time(self) -> None:
        now = time.monotonic()
        for slot in self._slots:
            if not slot.sent or not slot.worker:
                continue
            limit, passed = self._timeout(slot.sent[0].task), now - slot.since
            if not slot.ready:
                self._enforce_start(slot, limit + _START, passed)
            elif slot.condemned is None and passed > _TICK and slot.worker.is_unreported():
                # The server may have been stopped by what it did before.
                self._lose(slot, "the worker's server was stopped")
            elif slot.condemned is None and passed > limit:
                slot.condemned, slot.killed = slot.sent[0].number, now
                slot.worker.kill()
            elif slot.condemned is not None and now - slot.killed > _GRACE:
                # Nobody reports the worker's end: the server itself is stopped, or hangs.
                self._give_up(slot, Attempt(Outcome.TIMED_OUT, seconds=passed))

    def _enforce_start(self, slot: _Slot, limit: float, passed: float) -> None:
        assert slot.worker
        if passed <= limit:
            return
        kind, why = slot.worker.kind, f"nothing was heard of it in {limit:.0f} s"
        if kind in self._started:
            self._failed_to_start(kind, why, slot)
        else:
            # One that never started would take as long once more.
            self._abandon(kind, why, slot)


def machine_memory_mb() -> float:
    """The memory that this process may use: the machine's, or what a container allows."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 20)
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return whole
    if not allowed.isdecimal():
        return whole
    return min(whole, int(allowed) / (1 << 20))


def oom_kills() -> int:
    """Return how many processes the system has ended for want of memory since it started."""
    with contextlib.suppress(OSError, ValueError):
        for line in _VMSTAT.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == _OOM_KILLS:
                return int(number)
    return 0


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _obituary(slot: _Slot, event: Json, seconds: float) -> Attempt:
    """The attempt that a worker died over."""
    assert slot.worker
    outcome = Outcome.DIED
    # A compiler denied its memory may also fault without a word: only how much it held tells.
    limit = slot.worker.kind.config.get("memory_mb", 0)
    silent = event["signal"] == "SIGSEGV" and not event["log"].strip()
    if silent and 0 < limit / 2 < event["peak_mb"]:
        outcome = Outcome.OUT_OF_MEMORY
    return Attempt(
        outcome=outcome,
        stage=event["stage"],
        exit_code=event["exit_code"],
        signal=event["signal"],
        log=event["log"],
        seconds=seconds,
        peak_mb=event["peak_mb"],
    )
