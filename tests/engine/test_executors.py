"""The pool and the sandbox under it, against a compiler that does its worst."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flacheck.engine import sandbox
from flacheck.engine.executors import LocalPool, Task
from flacheck.model import Attempt, Outcome
from tests import fake
from tests.paths import ROOT


def attempts(tasks: list[Task], jobs: int = 1, timeout: float = 30) -> dict[str, Attempt]:
    pool = LocalPool(jobs, lambda task: timeout)
    try:
        pool.submit(tasks)
        return {task.name: attempt for batch in pool.results() for task, attempt in batch}
    finally:
        pool.close()


def running(marker: str) -> list[int]:
    outcomes = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if marker.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                    outcomes.append(int(folder.name))
            except OSError:
                continue
    return outcomes


def has_gone(marker: str, seconds: float = 5) -> bool:
    end = time.monotonic() + seconds
    while running(marker) and time.monotonic() < end:
        time.sleep(0.05)
    return not running(marker)


def test_a_finished_compile_says_what_it_needs() -> None:
    """The attempt has the resources and the last stage."""
    kind = fake.kind({})
    attempt = attempts([fake.task("good", kind)])["good"]
    assert (attempt.outcome, attempt.resources.shared, attempt.stage) == (
        Outcome.FINISHED,
        1024,
        "lower",
    )
    assert attempt.peak_mb is not None
    assert attempt.peak_mb > 1


@pytest.mark.parametrize(
    ("behaviour", "outcome", "signal_name"),
    [
        ("abort worker.cpp:1: Assertion `x' failed.", Outcome.DIED, "SIGABRT"),
        ("fault", Outcome.DIED, "SIGSEGV"),
        ("exit 3", Outcome.DIED, None),
        ("raise PassManager::run failed", Outcome.RAISED, None),
        ("close", Outcome.DIED, "SIGABRT"),
    ],
)
def test_whatever_the_compiler_does_the_next_cell_compiles(
    behaviour: str, outcome: Outcome, signal_name: str
) -> None:
    """A crash is one attempt's outcome, with its stage, and affects no other cell."""
    kind = fake.kind({"bad": behaviour})
    outcomes = attempts([fake.task(name, kind) for name in ("first", "bad", "second", "third")])
    assert (outcomes["bad"].outcome, outcomes["bad"].signal, outcomes["bad"].stage) == (
        outcome,
        signal_name,
        "lower",
    )
    assert {outcomes[name].outcome for name in ("first", "second", "third")} == {Outcome.FINISHED}


def test_the_log_of_a_dead_worker_is_kept() -> None:
    """The attempt has the compiler's output before the abort."""
    kind = fake.kind({"bad": "abort Lowering.cpp:12: Assertion `false' failed."})
    assert "Assertion `false' failed." in attempts([fake.task("bad", kind)])["bad"].log


def test_a_flood_on_stderr_is_cut_in_the_middle() -> None:
    """A runaway log neither blocks nor grows without bound; its end is kept."""
    kind = fake.kind({"bad": "flood 200"})
    attempt = attempts([fake.task("bad", kind)])["bad"]
    assert len(attempt.log) < 200_000
    assert attempt.log.rstrip().endswith("RuntimeError: after the flood")


def test_an_endless_assembler_is_killed_with_its_worker() -> None:
    """A timeout ends the whole process group, so that no process is left."""
    marker = f"flacheck-test-{os.getpid()}-hang"
    kind = fake.kind({"bad": f"hang {marker}"})
    pool = LocalPool(1, lambda task: 1.0 if task.name == "bad" else 30)
    pool.submit([fake.task("bad", kind), fake.task("good", kind)])
    outcomes = {task.name: attempt for batch in pool.results() for task, attempt in batch}
    pool.close()
    assert outcomes["bad"].outcome is Outcome.TIMED_OUT
    assert outcomes["bad"].stage == "lower"
    assert outcomes["good"].outcome is Outcome.FINISHED
    assert has_gone(marker)


@pytest.mark.parametrize(
    ("waiting_share", "outcome"), [(0.0, Outcome.TIMED_OUT), (0.9, Outcome.FINISHED)]
)
def test_the_wait_for_a_processor_is_not_a_cells_time(
    monkeypatch: pytest.MonkeyPatch, waiting_share: float, outcome: Outcome
) -> None:
    """A cell's time excludes the wait for a CPU, so that a busy machine causes no timeout."""
    start = time.monotonic()

    def waiting(pid: int) -> float:
        return waiting_share * (time.monotonic() - start)

    monkeypatch.setattr(sandbox, "waiting_seconds", waiting)
    kind = fake.kind({"slow": "sleep 4"})
    assert attempts([fake.task("slow", kind)], timeout=1.5)["slow"].outcome is outcome


def test_the_wait_for_a_processor_is_measured_of_children_too() -> None:
    """Two processes on one CPU each wait for half of the time."""
    spin = "import time; end = time.monotonic() + 2\nwhile time.monotonic() < end: pass"
    parent = (
        f"import os, subprocess, sys; os.sched_setaffinity(0, [{min(os.sched_getaffinity(0))}])"
    )
    parent += f"\nfor _ in range(2): subprocess.Popen([sys.executable, '-c', {spin!r}])\nos.wait()"
    process = subprocess.Popen([sys.executable, "-c", parent])
    seconds = 0.0
    while process.poll() is None:
        seconds = max(seconds, sandbox.waiting_seconds(process.pid))
        time.sleep(0.05)
    assert seconds > 0.5
    assert sandbox.waiting_seconds(process.pid) == 0.0


def test_a_memory_bomb_meets_its_limit() -> None:
    """An allocation over the limit fails inside the worker, not on the machine."""
    kind = fake.kind({"bad": "bomb"}, memory_mb=512)
    attempt = attempts([fake.task("bad", kind)])["bad"]
    assert attempt.signal == "SIGABRT"
    assert "bad_alloc" in attempt.log


def test_a_worker_is_recycled_when_it_has_grown() -> None:
    """Memory that a compiler leaks is freed with its worker."""
    kind = fake.kind({"big": "grow 200", "*": "pid"}, recycle_mb=100)
    outcomes = attempts([fake.task(name, kind) for name in ("one", "two", "big", "three")])
    pids = {name: outcomes[name].facts["pid"] for name in ("one", "two", "three")}
    assert pids["one"] == pids["two"] != pids["three"]


def test_a_fresh_task_gets_a_worker_that_has_done_nothing() -> None:
    """The task gets a warm fork of its own, which the tasks after it share."""
    kind = fake.kind({"*": "pid"})
    pool = LocalPool(1, lambda task: 30)
    pool.submit([fake.task("one", kind)])
    outcomes = {}
    for finished, attempt in (entry for batch in pool.results() for entry in batch):
        outcomes[finished.name] = attempt.facts["pid"]
        if finished.name == "one":
            pool.submit([fake.task("fresh", kind, fresh=True)])
    pool.close()
    assert outcomes["one"] != outcomes["fresh"]


def test_a_compiler_that_does_not_start_answers_for_all_its_cells() -> None:
    """Every task of that kind has the reason; other kinds are unaffected."""
    broken, whole = fake.kind({"start": "broken"}, "0.9"), fake.kind({})
    outcomes = attempts([fake.task("a", broken), fake.task("b", broken), fake.task("c", whole)])
    assert outcomes["a"].outcome is outcomes["b"].outcome is Outcome.NOT_STARTED
    assert "libfake.so" in outcomes["b"].log
    assert outcomes["c"].outcome is Outcome.FINISHED


def test_tasks_survive_a_killed_server() -> None:
    """If the warm process is killed from outside, its tasks go to another one."""
    kind = fake.kind({"first": "pid"})
    pool = LocalPool(1, lambda task: 30)
    pool.submit([fake.task(name, kind) for name in ("first", *"bcdefgh")])
    outcomes = {}
    for task, attempt in (entry for batch in pool.results() for entry in batch):
        outcomes[task.name] = attempt.outcome
        if task.name == "first":
            status = Path(f"/proc/{attempt.facts['pid']}/status").read_text()
            os.kill(int(status.split("PPid:")[1].split()[0]), signal.SIGKILL)
    pool.close()
    assert len(outcomes) == 8
    assert set(outcomes.values()) == {Outcome.FINISHED}


def test_two_jobs_use_two_workers() -> None:
    """Two workers of one kind may run at once."""
    kind = fake.kind({"*": "pid"})
    outcomes = attempts([fake.task(f"k{i}", kind) for i in range(200)], jobs=2)
    assert len({attempt.facts["pid"] for attempt in outcomes.values()}) == 2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_parent_leaves_nothing_running(how: signal.Signals) -> None:
    """kill -9 of flacheck itself ends worker, server and assembler."""
    marker = f"flacheck-test-{os.getpid()}-{how.name}"
    script = (
        "from tests import fake; from flacheck.engine.executors import LocalPool\n"
        f"kind = fake.kind({{'bad': 'hang {marker}'}})\n"
        "pool = LocalPool(1, lambda task: 100); pool.submit([fake.task('bad', kind)]); list(pool.results())"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    end = time.monotonic() + 20
    while not running(marker) and time.monotonic() < end:
        time.sleep(0.05)
    assert running(marker)
    parent.send_signal(how)
    parent.wait()
    assert has_gone(marker)


def test_the_environment_of_a_worker_is_an_allow_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's TRITON_PTXAS_PATH or LD_PRELOAD never reaches a compiler."""
    from flacheck.engine.sandbox import Worker

    monkeypatch.setenv("TRITON_PTXAS_PATH", "/tmp/other-ptxas")
    monkeypatch.setenv("LD_PRELOAD", "")
    worker = Worker(fake.kind({}))
    try:
        assert worker.receive()["event"] == "ready"
        environment = Path(f"/proc/{worker._server.pid}/environ").read_bytes().decode()
    finally:
        worker.close()
    assert "TRITON_PTXAS_PATH" not in environment
    assert "LD_PRELOAD" not in environment
