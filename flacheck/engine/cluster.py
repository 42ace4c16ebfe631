"""The executor on Dask: batches of tasks go to the worker processes of a cluster.

The cluster may be a local one, or any that `dask.distributed` reaches: Slurm by dask-jobqueue,
Kubernetes, SSH. Each worker thread runs its tasks in a `LocalPool` of its own, so timeouts, memory
limits and the isolation of compilers hold as on this machine. A compiler is installed once on
each node, by the same provider.

Source: https://distributed.dask.org/en/stable/resilience.html for what a lost worker process means.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from flacheck.engine.executors import LocalPool, Task, TaskResult, machine_memory_mb
from flacheck.engine.provider import Unavailable, WorkerRecipe, provide_kind
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import IncompleteError, UsageError
from flacheck.model import Attempt, Outcome
from flacheck.version import __version__

if TYPE_CHECKING:
    from distributed import Client, Future


INSTALL_DASK = "pip install 'flacheck[cluster]', or pip install distributed"
# Seconds of work in a batch, so that the way to a node costs little beside it.
_BATCH_SECONDS = 0.5
# Tasks in a batch at most, so that a lost worker process repeats little.
_MOST_IN_BATCH = 512
# Batches that each worker thread has: the one that runs and the next one.
_BATCHES_AHEAD = 2
# Worker processes that may be lost over one task before the task is given up.
_TRIES = 3
# Seconds to wait for a scheduler.
_CONNECT = 10
# The weight of the last batch in the average time of a task.
_LATEST = 0.2
# Dask's priority of a task that confirms a failure.
_CONFIRMS = 1


@dataclass(frozen=True)
class _RemoteTask:
    """A task as it travels: its number here, its request, its timeout in seconds."""

    number: int
    request: dict[str, Any]
    timeout: float
    fresh: bool


# The part of a kind of worker that holds on every node.
_Portable = WorkerRecipe | WorkerKind


class DaskExecutor:
    """An executor whose tasks run on the worker processes of a Dask cluster.

    Args:
        address: The scheduler's address, such as `tcp://10.0.0.1:8786`; "" starts a local cluster.
        jobs: Number of worker processes of a local cluster.
        timeout: Return the seconds that a task may take.

    Raises:
        UsageError: If `dask.distributed` is not installed.
        IncompleteError: If the scheduler is out of reach, or lacks workers.
    """

    def __init__(self, address: str, jobs: int, timeout: Callable[[Task], float]) -> None:
        self._timeout = timeout
        self._cluster, self._client = _connect(address, jobs)
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            self.width = _count_threads(self._client)
            stack.pop_all()
        self._waiting: dict[WorkerKind, deque[Task]] = {}
        self._fresh: deque[Task] = deque()
        self._numbers = 0
        # The tasks of each batch that is on the cluster, and the seconds that a task took lately.
        self._batches: dict[Future, Sequence[tuple[int, Task]]] = {}
        self._pace: dict[WorkerKind, float] = {}
        self._losses: Counter[int] = Counter()
        # Tasks that must run with nothing else on the cluster; True while one does.
        self._suspects: deque[tuple[int, Task]] = deque()
        self._is_alone = False

    def submit(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            if task.fresh:
                self._fresh.append(task)
            else:
                self._waiting.setdefault(task.kind, deque()).append(task)

    def results(self) -> Iterator[list[TaskResult]]:
        """Yield attempts as batches end, until no task is waiting or running.

        Raises:
            IncompleteError: If the connection to the scheduler is lost.
        """
        from distributed import as_completed

        completed = as_completed(loop=self._client.loop)
        self._send(completed)
        while self._batches:
            futures = [next(completed)]
            while completed.has_ready():
                futures.append(next(completed))
            results: list[TaskResult] = []
            for future in futures:
                results += self._take(future, completed)
            if results:
                yield results
            self._send(completed)

    def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self._client.cancel(list(getattr(self, "_batches", ())), force=True)
        self._client.close(timeout=_CONNECT)
        if self._cluster is not None:
            self._cluster.close(timeout=_CONNECT)

    def node_processes(self) -> list[int]:
        """Return the process ids of the cluster's worker processes."""
        return list(self._client.run(os.getpid).values())

    # Batches on their way

    def _send(self, completed: Any) -> None:
        """Send batches until each worker thread has enough.

        A suspect runs alone on the cluster, because a task that kills its node takes along the
        tasks that are queued there.
        """
        if self._suspects:
            if not self._batches:
                self._is_alone = True
                self._send_batch([self._suspects.popleft()], completed)
            return
        if self._is_alone:
            return
        while self._fresh:
            task = self._fresh.popleft()
            self._send_batch([self._number(task)], completed)
        enough = self.width * _BATCHES_AHEAD
        for kind, queue in self._waiting.items():
            while queue and len(self._batches) < enough:
                size = self._batch_size(kind, len(queue))
                batch = [self._number(queue.popleft()) for _ in range(size)]
                self._send_batch(batch, completed)

    def _batch_size(self, kind: WorkerKind, waiting: int) -> int:
        """Return how many tasks of a kind the next batch has.

        Every worker thread gets an equal part of what waits, so that all end together.
        """
        pace = self._pace.get(kind)
        if pace is None:
            return 1
        by_time = int(_BATCH_SECONDS / max(pace, 1e-6))
        fair = -(-waiting // (self.width * _BATCHES_AHEAD))
        return max(1, min(by_time, fair, _MOST_IN_BATCH))

    def _number(self, task: Task) -> tuple[int, Task]:
        self._numbers += 1
        return self._numbers, task

    def _send_batch(self, batch: Sequence[tuple[int, Task]], completed: Any) -> None:
        kind = batch[0][1].kind
        remote_tasks = []
        for number, task in batch:
            request = dict(task.request)
            remote_tasks.append(_RemoteTask(number, request, self._timeout(task), task.fresh))
        portable: _Portable = kind.recipe or kind
        future = self._client.submit(
            run_batch,
            portable,
            remote_tasks,
            pure=False,
            priority=_CONFIRMS if batch[0][1].fresh else 0,
        )
        self._batches[future] = batch
        completed.add(future)

    def _take(self, future: Future, completed: Any) -> list[TaskResult]:
        """Return the results of a batch that ended; send its tasks again if they were lost."""
        from distributed import CancelledError
        from distributed.scheduler import KilledWorker

        batch = self._batches.pop(future)
        if future.status in ("lost", "pending"):
            # It ended, and the node that held its result died: the scheduler runs it again.
            self._batches[future] = batch
            completed.add(future)
            return []
        was_alone = self._is_alone
        self._is_alone = False
        error = None
        if future.status == "finished":
            try:
                attempts = dict(future.result())
            except (OSError, CancelledError):
                # The scheduler reported the end of the batch, and died before the result came.
                raise _lost_scheduler() from None
            except KilledWorker as raised:
                # The node that held the result died, and so did the batch when it ran again.
                error = raised
            else:
                self._learn_pace(batch[0][1].kind, list(attempts.values()))
                return [(task, attempts[number]) for number, task in batch]
        elif future.status == "error":
            error = future.exception()
        if error is None:
            raise _lost_scheduler()
        if isinstance(error, KilledWorker):
            # The scheduler itself may have tried the batch several times.
            losses = getattr(error, "allowed_failures", 0) + 1
            return self._send_again(batch, losses, was_alone, completed)
        log = f"the cluster could not run this task: {type(error).__name__}: {error}"
        return [(task, Attempt(Outcome.LOST, log=log)) for _, task in batch]

    def _send_again(
        self, batch: Sequence[tuple[int, Task]], losses: int, was_alone: bool, completed: Any
    ) -> list[TaskResult]:
        """Send the tasks of a lost batch one by one; give up one that was lost while alone."""
        results: list[TaskResult] = []
        for number, task in batch:
            self._losses[number] += losses
            if was_alone:
                log = f"its Dask worker process ended {self._losses[number]} times"
                results.append((task, Attempt(Outcome.LOST, log=log)))
            elif self._losses[number] >= _TRIES - 1:
                self._suspects.append((number, task))
            else:
                self._send_batch([(number, task)], completed)
        return results

    def _learn_pace(self, kind: WorkerKind, attempts: Sequence[Attempt]) -> None:
        seconds = sum(attempt.seconds for attempt in attempts) / len(attempts)
        before = self._pace.get(kind, seconds)
        self._pace[kind] = before + _LATEST * (seconds - before)


def _lost_scheduler() -> IncompleteError:
    return IncompleteError(
        "the Dask scheduler no longer answers; every finished result is stored: run the same"
        " command again to go on"
    )


def run_batch(portable: _Portable, tasks: Sequence[_RemoteTask]) -> list[tuple[int, Attempt]]:
    """Run a batch on a node, in the pool of this worker thread; return attempts by number."""
    kind = portable
    if isinstance(portable, WorkerRecipe):
        provided = _provide(portable)
        if isinstance(provided, Unavailable):
            attempt = Attempt(Outcome.NOT_STARTED, stage="start", log=provided.reason)
            return [(task.number, attempt) for task in tasks]
        kind = provided
    assert isinstance(kind, WorkerKind)
    timeouts = {task.number: task.timeout for task in tasks}
    pool = _pool_of_thread()
    pool.limit = timeouts
    pool.submit(Task(task.number, kind, task.request, task.fresh) for task in tasks)
    attempts: list[tuple[int, Attempt]] = []
    for results in pool.results():
        for done, attempt in results:
            attempts.append((done.name, attempt))
    return attempts


class _NodePool(LocalPool):
    """The pool of a worker thread; `limit` holds the timeouts of its batch."""

    def __init__(self, memory_mb: float) -> None:
        self.limit: dict[int, float] = {}
        super().__init__(1, lambda task: self.limit[task.name], memory_mb)


_LOCAL = threading.local()


def _pool_of_thread() -> _NodePool:
    if not hasattr(_LOCAL, "pool"):
        _LOCAL.pool = _NodePool(machine_memory_mb())
        atexit.register(_LOCAL.pool.close)
    pool: _NodePool = _LOCAL.pool
    return pool


@lru_cache(maxsize=64)
def _provide(recipe: WorkerRecipe) -> WorkerKind | Unavailable:
    """Return the kind of worker on this node; its compiler is installed once."""
    return provide_kind(recipe)


def _connect(address: str, jobs: int) -> tuple[Any, Client]:
    """Return a local cluster, None for another one, and the client of its scheduler."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise UsageError(f"--executor dask: {error}; {INSTALL_DASK}") from error
    # This executor sends the tasks of a lost worker process again, and counts.
    dask.config.set({"distributed.scheduler.allowed-failures": 0})
    if not address:
        cluster = LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.ERROR,
        )
        return cluster, Client(cluster, set_as_default=False)
    try:
        client = Client(address, timeout=_CONNECT, set_as_default=False)
    # Dask raises TypeError for a `tls:` address without certificates in its configuration.
    except (OSError, ValueError, TypeError, TimeoutError) as error:
        raise IncompleteError(
            f"no Dask scheduler answers at {address}: {error}; start one with `dask scheduler`, or"
            " correct the address of --executor"
        ) from error
    return None, client


def _count_threads(client: Client) -> int:
    """Return the number of worker threads of a cluster whose nodes have this flacheck.

    Raises:
        IncompleteError: If the cluster lacks workers, or a node runs another flacheck.
    """
    try:
        client.wait_for_workers(1, timeout=_CONNECT)
    except TimeoutError as error:
        raise IncompleteError(
            "the Dask cluster has no workers; start some with `dask worker ADDRESS`"
        ) from error
    threads: int = sum(client.nthreads().values())
    for node, version in client.run(node_version).items():
        if version != __version__:
            raise IncompleteError(
                f"the Dask worker {node} has flacheck {version}, and here is {__version__};"
                " install the same one there"
            )
    return threads


def node_version() -> str:
    """Return the version of flacheck on a node."""
    return __version__
