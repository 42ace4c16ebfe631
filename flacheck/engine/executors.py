"""Executors, which run tasks. `LocalPool` keeps warm workers on this machine.

A task and an attempt are plain values that can be sent elsewhere. An executor depends neither on
rules nor on reports.
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

# Requests that are queued at a worker, so that it never waits for this process. The queue is longer
# if a request takes less time than its way here and back.
_AHEAD, _AHEAD_OF_QUICK = 2, 16
# Seconds below which an attempt is quick.
_QUICK = 0.02
# Seconds between two checks of the timeouts.
_TICK = 0.5
# Starts that may fail in a row. One failure may be an accident, three come from the compiler.
_STILLBORN = 3
# Workers and servers that may be lost over one task before the task is given up.
_TRIES = 3
# Seconds that the import of a compiler may take in addition to a task's own time.
START = 10.0
# Seconds within which a server has to report the end of a worker that was killed.
GRACE = 3.0
# Signals that a compiler never sends to itself: another process or the kernel ended the worker.
SIGNALS_FROM_OUTSIDE = frozenset(
    "SIGKILL SIGTERM SIGINT SIGHUP SIGQUIT SIGPIPE SIGUSR1 SIGUSR2".split()
)
# The signal at the CPU time limit, which ends an assembler that outlives its worker.
_OUT_OF_TIME = "SIGXCPU"
# The counter of processes that the system killed for lack of memory, in containers too.
VMSTAT, _OOM_KILLS = Path("/proc/vmstat"), "oom_kill"
# The exit code of a worker whose socket was closed from within (`UNHEARD` of the guest's server).
_UNHEARD = 76
# The weight of the last attempt in a worker's average time.
_LATEST = 0.2


@dataclass(frozen=True)
class Task:
    """A request for a kind of worker.

    `name` belongs to the caller. `fresh` requires a worker that has not run any request yet (a warm
    fork).
    """

    name: Any
    kind: WorkerKind
    request: Mapping[str, Any]
    fresh: bool = False


TaskResult = tuple[Task, Attempt]


class Executor(Protocol):
    """An executor takes tasks and yields their attempts in order of completion.

    Attempts that end together come in one list. More tasks may be submitted meanwhile. `width` is
    the number of tasks that run at a time.
    """

    width: int

    def submit(self, tasks: Iterable[Task]) -> None: ...

    def results(self) -> Iterator[list[TaskResult]]: ...

    def close(self) -> None: ...


@dataclass
class _Queued:
    """A submitted task.

    `number` is the request number under which it was last sent. `losses` counts the workers and
    servers that died while the task ran.
    """

    task: Task
    number: int = 0
    losses: int = 0


_NOTHING: deque[_Queued] = deque(maxlen=0)


@dataclass
class _Slot:
    """One worker at a time and the jobs that it was sent, oldest first.

    `since` is the time at which the oldest job started. If that job timed out, `timed_out_job` is
    its number and `killed_at` the time at which the worker was killed. `waited_before` are the
    seconds that the worker had waited for a processor when the job's time was first checked.
    """

    worker: Worker | None = None
    jobs_sent: deque[_Queued] = field(default_factory=deque)
    ready: bool = False
    since: float = 0.0
    timed_out_job: int | None = None
    killed_at: float = 0.0
    waited_before: float | None = None
    stillborn: int = 0
    pace: float = 1.0

    @property
    def ahead(self) -> int:
        """The number of requests to keep queued at the worker."""
        if self.pace < _QUICK:
            return _AHEAD_OF_QUICK
        return _AHEAD

    def restart_clock(self) -> None:
        """Start the clock of the next job."""
        self.since, self.timed_out_job = time.monotonic(), None
        self.waited_before = None

    def running_seconds(self, now: float) -> float:
        """Return the time of the oldest job without its wait for a processor of a busy machine."""
        assert self.worker
        waited = self.worker.waiting_seconds()
        if self.waited_before is None:
            self.waited_before = waited
        return now - self.since - max(0.0, waited - self.waited_before)


class OutOfTime(Exception):
    """The time of a pool has passed before its last task ended."""


class LocalPool:
    """`jobs` workers on this machine, each of one kind until the tasks of that kind run out.

    Every task ends in an attempt within its timeout and a few seconds, even if its worker or server
    dies. `end` is the time (`time.monotonic`) from which `results` raises OutOfTime.
    """

    def __init__(
        self,
        jobs: int,
        timeout: Callable[[Task], float],
        memory_mb: float | None = None,
        end: float = math.inf,
    ) -> None:
        self.width = jobs
        # The memory for all workers together. Only kinds with a declared need are counted.
        if memory_mb is None:
            memory_mb = machine_memory_mb()
        self._memory_mb = memory_mb
        self._slots = [_Slot() for _ in range(jobs)]
        self._timeout = timeout
        self._end = end
        self._waiting: dict[WorkerKind, deque[_Queued]] = {}
        self._selector = selectors.DefaultSelector()
        self._numbers = 0
        self._results: list[TaskResult] = []
        # Kinds of which a server has started, and the number of failed starts in a row of each.
        self._started: set[WorkerKind] = set()
        self._start_failures: Counter[WorkerKind] = Counter()
        self._oom_kills = oom_kills()

    def submit(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            queue = self._queue(task.kind)
            if task.fresh:
                queue.appendleft(_Queued(task))
            else:
                queue.append(_Queued(task))

    def results(self) -> Iterator[list[TaskResult]]:
        """Yield attempts as they end, until no task is waiting or running."""
        while self._fill() or self._results:
            pause = 0.0 if self._results else _TICK
            for key, _ in self._selector.select(pause):
                slot = key.data
                self._event(slot)
                # The other events that the worker has already sent.
                while slot.worker and slot.worker.has_event():
                    self._event(slot)
            self._enforce_time()
            if self._results:
                results, self._results = self._results, []
                yield results
            if time.monotonic() > self._end:
                raise OutOfTime

    def close(self) -> None:
        for slot in self._slots:
            self._retire(slot)
        self._selector.close()

    # Waiting tasks and the workers that take them

    def _fill(self) -> bool:
        """Send waiting tasks to every slot; return False if no task is left."""
        for slot in self._slots:
            if not slot.jobs_sent:
                if not self._queue_of(slot):
                    self._hire(slot)
                if self._queue_of(slot) and not self._send(slot):
                    # The socket is full of messages that are not read, and none of them is a
                    # request of this slot.
                    assert slot.worker
                    self._failed_to_start(slot.worker.kind, "it takes no request", slot)
        for slot in self._slots:
            # Queue one request more, so that no worker waits for this process. The last requests
            # stay here, because another worker may be free for them earlier.
            enough = len(self._slots) * slot.ahead
            while len(slot.jobs_sent) < slot.ahead and len(self._queue_of(slot)) >= enough:
                if not self._send(slot):
                    break
        if any(self._waiting.values()):
            return True
        return any(slot.jobs_sent for slot in self._slots)

    def _queue(self, kind: WorkerKind) -> deque[_Queued]:
        return self._waiting.setdefault(kind, deque())

    def _queue_of(self, slot: _Slot) -> deque[_Queued]:
        """Return the queue of the slot's kind of worker."""
        if slot.worker is None:
            return _NOTHING
        return self._waiting.get(slot.worker.kind, _NOTHING)

    def _hire(self, slot: _Slot) -> None:
        """Start a worker of the kind with the fewest workers and then the most tasks."""
        kinds = []
        for waiting_kind, queue in self._waiting.items():
            if queue and self._fits(waiting_kind, slot):
                kinds.append(waiting_kind)
        if not kinds:
            return
        self._retire(slot)
        busy = [other.worker.kind for other in self._slots if other.worker]

        def priority(kind: WorkerKind) -> tuple[int, int]:
            return -busy.count(kind), len(self._waiting[kind])

        kind = max(kinds, key=priority)
        try:
            slot.worker = Worker(kind)
        except OSError as error:
            # The system is out of processes, memory or disk space.
            self._failed_to_start(kind, f"it cannot be started: {error}")
            return
        slot.ready, slot.stillborn = False, 0
        slot.restart_clock()
        self._selector.register(slot.worker, selectors.EVENT_READ, slot)

    def _fits(self, kind: WorkerKind, slot: _Slot) -> bool:
        """Return True if the memory suffices for a worker of this kind in the slot.

        A worker that would be the only one always fits.
        """
        used_mb = 0
        for other in self._slots:
            if other is not slot and other.worker:
                used_mb += other.worker.kind.needs_mb
        return used_mb == 0 or used_mb + kind.needs_mb <= self._memory_mb

    def _retire(self, slot: _Slot) -> None:
        if slot.worker:
            self._selector.unregister(slot.worker)
            slot.worker.close()
            slot.worker = None

    def _send(self, slot: _Slot) -> bool:
        """Send the next waiting task to the slot's worker; return False if its socket is full."""
        assert slot.worker
        job = self._queue_of(slot)[0]
        self._numbers += 1
        job.number = self._numbers
        request = dict(job.task.request)
        request["id"] = job.number
        request["timeout"] = self._timeout(job.task)
        if not slot.worker.send(request, job.task.fresh):
            return False
        self._queue_of(slot).popleft()
        if not slot.jobs_sent and slot.ready:
            slot.restart_clock()
        slot.jobs_sent.append(job)
        return True

    # Events from workers and servers

    def _event(self, slot: _Slot) -> None:
        assert slot.worker
        event = slot.worker.receive()
        kind = event["event"]
        if kind == "ready":
            slot.ready = True
            slot.restart_clock()
            self._started.add(slot.worker.kind)
            self._start_failures[slot.worker.kind] = 0
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
            self._failed_to_start(slot.worker.kind, "it ended without a message", slot)

    def _answer(self, slot: _Slot, event: Json) -> None:
        # A worker that died over a request may leave the request to its successor, whose result is
        # late.
        if not slot.jobs_sent:
            return
        if event["request"] != slot.jobs_sent[0].number:
            return
        try:
            attempt = Attempt.from_json(event["attempt"])
        except (ValueError, TypeError) as error:
            self._lose(slot, f"an answer that is malformed: {error}")
            return
        amounts = (attempt.seconds, attempt.cpu_seconds, attempt.peak_mb or 0.0)
        if not all(map(_is_amount, amounts)):
            self._lose(slot, "an answer with invalid times or sizes")
            return
        self._finish(slot, attempt)

    def _finish(self, slot: _Slot, attempt: Attempt) -> None:
        job = slot.jobs_sent.popleft()
        slot.pace += _LATEST * (attempt.seconds - slot.pace)
        slot.stillborn = 0
        slot.restart_clock()
        if attempt.outcome is not Outcome.FINISHED and not attempt.oom_killed:
            attempt = replace(attempt, oom_killed=self._is_memory_short(attempt))
        self._results.append((job.task, attempt))

    def _is_memory_short(self, attempt: Attempt) -> bool:
        """Return True if lack of memory may have caused the failure of an attempt.

        Memory is short if the system has killed a process for lack of memory since the last call,
        or if the attempt used more than half of the machine's memory.
        """
        before, self._oom_kills = self._oom_kills, oom_kills()
        if self._oom_kills > before:
            return True
        used_mb = attempt.peak_mb or 0.0
        return used_mb > machine_memory_mb() / 2

    def _exit(self, slot: _Slot, event: Json) -> None:
        """Handle the end of a worker, in the middle of a request or between two requests."""
        job: _Queued | None = None
        if slot.jobs_sent:
            job = slot.jobs_sent[0]
        timed_out_job, slot.timed_out_job = slot.timed_out_job, None
        if job is not None and event["request"] == job.number:
            self._died(slot, job, event, timed_out_job)
        elif job is not None and timed_out_job == job.number:
            # The worker hung before it took the request. Its successor would take the request and
            # hang too.
            seconds = time.monotonic() - slot.since
            self._give_up(slot, Attempt(Outcome.TIMED_OUT, seconds=seconds))
        elif not event["done"] and not event["signal"] and event["exit_code"] == 1:
            slot.stillborn += 1
            if slot.stillborn >= _STILLBORN:
                assert slot.worker
                self._abandon(slot.worker.kind, event["log"], slot)

    def _died(self, slot: _Slot, job: _Queued, event: Json, timed_out_job: int | None) -> None:
        """Handle the end of a worker in the middle of a job."""
        attempt = _obituary(slot, event, time.monotonic() - slot.since)
        outside = event["signal"] in SIGNALS_FROM_OUTSIDE or event["exit_code"] == _UNHEARD
        if timed_out_job == job.number or event["signal"] == _OUT_OF_TIME:
            # flacheck itself sent the signal.
            self._finish(slot, replace(attempt, outcome=Outcome.TIMED_OUT, signal=None))
        elif timed_out_job is not None:
            # The worker was killed for the timeout of the previous job, which ended at that moment.
            slot.jobs_sent.popleft()
            self._again(slot, [job])
        elif outside and job.losses + 1 < _TRIES:
            job.losses += 1
            slot.jobs_sent.popleft()
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
        """Put jobs that a slot lost before all others of their kind."""
        for job in reversed(jobs):
            self._queue(job.task.kind).appendleft(job)
        slot.restart_clock()

    # Lost and abandoned tasks

    def _lose(self, slot: _Slot, why: str) -> None:
        """Give the slot's jobs to another server, after a server ended or sent garbage.

        The running job is retried a few times only.
        """
        if slot.jobs_sent:
            slot.jobs_sent[0].losses += 1
            if slot.jobs_sent[0].losses >= _TRIES:
                log = f"{why}, {_TRIES} times"
                self._results.append(
                    (slot.jobs_sent.popleft().task, Attempt(Outcome.LOST, log=log))
                )
        self._dismiss(slot)

    def _give_up(self, slot: _Slot, attempt: Attempt) -> None:
        """End the running job with this attempt, end the server, and requeue the other jobs."""
        self._results.append((slot.jobs_sent.popleft().task, attempt))
        self._dismiss(slot)

    def _dismiss(self, slot: _Slot) -> None:
        """End the server at once and requeue its jobs."""
        if slot.worker:
            slot.worker.end()
        jobs = list(slot.jobs_sent)
        slot.jobs_sent.clear()
        self._again(slot, jobs)
        self._retire(slot)

    def _failed_to_start(self, kind: WorkerKind, why: str, slot: _Slot | None = None) -> None:
        """Count a failed start; abandon the kind after a few of them."""
        if slot is not None:
            self._dismiss(slot)
        self._start_failures[kind] += 1
        if self._start_failures[kind] >= _STILLBORN:
            self._abandon(kind, why)

    def _abandon(self, kind: WorkerKind, log: str, slot: _Slot | None = None) -> None:
        """End all tasks of a kind whose compiler cannot start."""
        if slot is not None:
            self._dismiss(slot)
        attempt = Attempt(Outcome.NOT_STARTED, stage="start", log=log)
        for job in self._waiting.pop(kind, ()):
            self._results.append((job.task, attempt))

    def _enforce_time(self) -> None:
        now = time.monotonic()
        for slot in self._slots:
            if not slot.jobs_sent or not slot.worker:
                continue
            limit = self._timeout(slot.jobs_sent[0].task)
            duration = now - slot.since
            running_seconds = slot.running_seconds(now)
            if not slot.ready:
                self._enforce_start(slot, limit + START, duration)
            elif slot.timed_out_job is None and duration > _TICK and slot.worker.is_unreported():
                # An earlier task may have stopped the server.
                self._lose(slot, "the worker's server was stopped")
            elif slot.timed_out_job is None and running_seconds > limit:
                slot.timed_out_job, slot.killed_at = slot.jobs_sent[0].number, now
                slot.worker.kill()
            elif slot.timed_out_job is not None and now - slot.killed_at > GRACE:
                # The worker's end is not reported: the server itself is stopped or hangs.
                self._give_up(slot, Attempt(Outcome.TIMED_OUT, seconds=duration))

    def _enforce_start(self, slot: _Slot, limit: float, duration: float) -> None:
        assert slot.worker
        if duration <= limit:
            return
        kind, why = slot.worker.kind, f"it sent nothing in {limit:.0f} s"
        if kind in self._started:
            self._failed_to_start(kind, why, slot)
        else:
            # A kind that never started would take as long again.
            self._abandon(kind, why, slot)


def machine_memory_mb() -> float:
    """Return the memory that this process may use, in MB.

    The value is the machine's memory, or the limit of the container.
    """
    pages = os.sysconf("SC_PHYS_PAGES")
    whole = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    try:
        container_limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return whole
    if not container_limit.isdecimal():
        return whole
    return min(whole, int(container_limit) / (1 << 20))


def oom_kills() -> int:
    """Return the number of processes killed for lack of memory since the system started."""
    with contextlib.suppress(OSError, ValueError):
        for line in VMSTAT.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == _OOM_KILLS:
                return int(number)
    return 0


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _obituary(slot: _Slot, event: Json, seconds: float) -> Attempt:
    """Return the attempt over which a worker died."""
    assert slot.worker
    outcome = Outcome.DIED
    # A compiler that gets no more memory may fault without a message. Then only the amount that it
    # used shows the cause.
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
