"""The executor on Dask, against a real scheduler with worker processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from flacheck.engine.executors import Task
from flacheck.errors import IncompleteError
from flacheck.model import Attempt, Outcome
from tests import fake

pytest.importorskip("distributed")
# Dask itself warns about its own deprecations and leaves sockets to the garbage collector.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

# An assertion of the fake compiler.
ABORT = "abort f.cpp:1: int f(int) const: Assertion `size == want' failed."


@pytest.fixture
def executor() -> Iterator[object]:
    """An executor on a local cluster of two worker processes."""
    from flacheck.engine.cluster import DaskExecutor

    made = DaskExecutor("", 2, lambda task: 5.0)
    yield made
    made.close()


def attempts(executor: object, tasks: list[Task]) -> dict[str, Attempt]:
    executor.submit(tasks)  # type: ignore[attr-defined]
    ended = {}
    for results in executor.results():  # type: ignore[attr-defined]
        for task, attempt in results:
            assert task.name not in ended
            ended[task.name] = attempt
    return ended


def test_each_task_ends_in_its_own_attempt(executor: object) -> None:
    """Also the tasks of a compiler that dies, and a task for a fresh worker."""
    kind = fake.kind({"bad": {"else": ABORT}})
    tasks = [fake.task(f"k{number}", kind) for number in range(300)]
    tasks += [fake.task("bad", kind), fake.task("first", kind, fresh=True)]
    ended = attempts(executor, tasks)
    assert len(ended) == 302
    assert ended["bad"].outcome is Outcome.DIED
    assert ended["bad"].signal == "SIGABRT"
    finished = [name for name, attempt in ended.items() if attempt.outcome is Outcome.FINISHED]
    assert len(finished) == 301


def test_a_task_is_ended_at_its_timeout(executor: object) -> None:
    """The limit holds on the node as it does here."""
    kind = fake.kind({"slow": {"else": "hang"}})
    ended = attempts(executor, [fake.task("slow", kind), fake.task("good", kind)])
    assert ended["slow"].outcome is Outcome.TIMED_OUT
    assert ended["good"].outcome is Outcome.FINISHED
