"""The executor on Dask, against a real scheduler with worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flacheck.engine.cluster import DaskExecutor
from flacheck.engine.executors import Task
from flacheck.errors import IncompleteError, UsageError
from flacheck.model import Attempt, Outcome
from tests import dask_cluster, fake

distributed = pytest.importorskip("distributed")
# Dask itself warns about its own deprecations and leaves sockets to the garbage collector.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

# An assertion of the fake compiler.
ABORT = "abort f.cpp:1: int f(int) const: Assertion `size == want' failed."


@pytest.fixture
def executor() -> Iterator[DaskExecutor]:
    """An executor on a local cluster of two worker processes."""
    cluster = DaskExecutor("", 2, lambda task: 5.0)
    yield cluster
    cluster.close()


def attempts(executor: DaskExecutor, tasks: list[Task]) -> dict[str, Attempt]:
    executor.submit(tasks)
    outcomes = {}
    for results in executor.results():
        for task, attempt in results:
            assert task.name not in outcomes
            outcomes[task.name] = attempt
    return outcomes


def test_each_task_ends_in_its_own_attempt(executor: DaskExecutor) -> None:
    """This includes the tasks of a compiler that dies, and a task for a fresh worker."""
    kind = fake.kind({"bad": {"else": ABORT}})
    tasks = [fake.task(f"k{number}", kind) for number in range(300)]
    tasks += [fake.task("bad", kind), fake.task("first", kind, fresh=True)]
    outcomes = attempts(executor, tasks)
    assert len(outcomes) == 302
    assert outcomes["bad"].outcome is Outcome.DIED
    assert outcomes["bad"].signal == "SIGABRT"
    names = [name for name, attempt in outcomes.items() if attempt.outcome is Outcome.FINISHED]
    assert len(names) == 301


def test_a_task_is_ended_at_its_timeout(executor: DaskExecutor) -> None:
    """The time limit holds on the node as it does on this machine."""
    kind = fake.kind({"slow": {"else": "hang"}})
    outcomes = attempts(executor, [fake.task("slow", kind), fake.task("good", kind)])
    assert outcomes["slow"].outcome is Outcome.TIMED_OUT
    assert outcomes["good"].outcome is Outcome.FINISHED


def test_a_killed_worker_process_loses_no_task(executor: DaskExecutor) -> None:
    """The tasks of a killed worker process run again elsewhere, and each ends once."""
    kind = fake.kind({"*": "sleep 0.01"})
    tasks = [fake.task(f"k{number}", kind) for number in range(200)]
    executor.submit(tasks)
    outcomes = []
    processes = executor.node_processes()
    for results in executor.results():
        outcomes += [(task.name, attempt.outcome) for task, attempt in results]
        if len(outcomes) >= 20 and processes:
            os.kill(processes.pop(), signal.SIGKILL)
            processes = []
    names = [name for name, _ in outcomes]
    assert sorted(names) == sorted(task.name for task in tasks)
    assert {outcome for _, outcome in outcomes} == {Outcome.FINISHED}


def test_a_task_that_kills_its_node_is_given_up(executor: DaskExecutor) -> None:
    """After three lost worker processes it is lost, and the others finish."""
    kind = fake.kind({"bad": "killnode"})
    tasks = [fake.task("bad", kind), *(fake.task(f"k{number}", kind) for number in range(20))]
    outcomes = attempts(executor, tasks)
    assert outcomes.pop("bad").outcome is Outcome.LOST
    assert {attempt.outcome for attempt in outcomes.values()} == {Outcome.FINISHED}


def test_a_result_that_is_lost_with_its_node_is_waited_for(
    executor: DaskExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask runs such a batch again, and calls its future lost until then."""
    tasks_taken: list[object] = []

    class LosesFirst(distributed.as_completed):  # type: ignore[misc, name-defined]
        """Futures as they complete; the first one gets its result half a second late."""

        def __next__(self) -> Any:
            future = super().__next__()
            if not tasks_taken:
                client = future.client
                report = {"op": "report-key", "key": future.key}
                future._state.status = "lost"
                client.loop.add_callback(future._state.lose)
                client.loop.call_later(0.5, client._send_to_scheduler, report)
            tasks_taken.append(future)
            return future

    monkeypatch.setattr(distributed, "as_completed", LosesFirst)
    kind = fake.kind({})
    outcomes = attempts(executor, [fake.task(f"k{number}", kind) for number in range(20)])
    assert tasks_taken.count(tasks_taken[0]) > 1
    assert {attempt.outcome for attempt in outcomes.values()} == {Outcome.FINISHED}
    assert len(outcomes) == 20


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler and a worker as a site starts them, with the scheduler's address."""
    with dask_cluster.serving(tmp_path) as (address, process):
        yield address, process


def test_a_killed_scheduler_is_an_error_that_says_how_to_go_on(
    scheduler: tuple[str, subprocess.Popen[bytes]],
) -> None:
    """The results up to then are kept, and no process hangs."""
    address, process = scheduler
    executor = DaskExecutor(address, 1, lambda task: 30.0)
    assert executor.width == 2
    kind = fake.kind({"*": "sleep 0.05"})
    executor.submit(fake.task(f"k{number}", kind) for number in range(500))
    count = 0
    with pytest.raises(IncompleteError, match="run the same command again"):
        for results in executor.results():
            count += len(results)
            if process.poll() is None:
                process.kill()
    assert 0 < count < 500
    executor.close()


def test_a_scheduler_that_dies_before_a_result_came_is_the_same_error(
    scheduler: tuple[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has ended, and the connection is lost while its result is fetched."""

    def lose(future: object) -> None:
        raise distributed.comm.CommClosedError("in <TCP (closed)>: Connection reset by peer")

    address, _ = scheduler
    executor = DaskExecutor(address, 1, lambda task: 30.0)
    executor.submit([fake.task("k", fake.kind({}))])
    monkeypatch.setattr(distributed.Future, "result", lose)
    with pytest.raises(IncompleteError, match="run the same command again"):
        list(executor.results())
    executor.close()


def test_no_scheduler_is_a_clear_error() -> None:
    """A scheduler or executor that does not exist gives one clear error."""
    with pytest.raises(IncompleteError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        DaskExecutor("tcp://127.0.0.1:9", 1, lambda task: 1.0)
    import flacheck

    with pytest.raises(UsageError, match="--executor slurm: expected local, dask"):
        flacheck.scan("quick", executor="slurm")


def test_a_scan_on_a_cluster_has_the_same_results(tmp_path: Path) -> None:
    """Real compiles, here and on two worker processes: verdicts and resources are equal."""
    import flacheck

    selection = {"kernel": "retention.chunk_*", "target": "sm90"}
    local = flacheck.scan("quick", **selection, store=tmp_path / "a")  # type: ignore[arg-type]
    remote = flacheck.scan("quick", **selection, store=tmp_path / "b", executor="dask", jobs=2)  # type: ignore[arg-type]

    def answers(run: flacheck.Run) -> list[tuple[str, str, object]]:
        rows = [(each.key, str(each.verdict), each.resources) for each in run.records]
        return sorted(rows, key=str)

    assert len(answers(local)) > 3
    assert answers(remote) == answers(local)
