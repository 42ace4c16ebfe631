"""Every task ends in an attempt, whatever happens to a worker, its server or their messages."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from flacheck.engine import executors, sandbox
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.judge import judge
from flacheck.engine.sandbox import Worker
from flacheck.model import Attempt, Outcome, Verdict
from tests import fake
from tests.fake.worker import ANSWERS, PACKETS

# Seconds that a task may take; the tests' own patience with a pool is a multiple.
TIMEOUT, PATIENCE = 2.0, 40.0


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that does not start within a short time counts as not starting."""
    monkeypatch.setattr(executors, "START", 2.0)


def outcomes_of(tasks: list[Task], jobs: int = 1, timeout: float = TIMEOUT) -> dict[str, Attempt]:
    """All attempts; an AssertionError when the pool hangs."""
    pool = LocalPool(jobs, lambda task: timeout)
    pool.submit(tasks)
    outcomes: dict[str, Attempt] = {}
    start = time.monotonic()
    try:
        for several in pool.results():
            for task, attempt in several:
                assert task.name not in outcomes
                outcomes[task.name] = attempt
            assert time.monotonic() - start < PATIENCE
    finally:
        pool.close()
    assert set(outcomes) == {task.name for task in tasks}
    return outcomes


def verdict(name: str, attempt: Attempt) -> Verdict:
    return judge(fake.cell(name), attempt).verdict


def among_others(*behaviours: str, timeout: float = TIMEOUT) -> dict[str, Attempt]:
    """The attempts of cells that do this, between others that compile and must do so."""
    kind = fake.kind({f"bad {what}": what for what in behaviours})
    tasks = []
    for place, what in enumerate(behaviours):
        tasks += [fake.task(f"good {place}", kind), fake.task(f"bad {what}", kind)]
    tasks.append(fake.task("good at last", kind))
    outcomes = outcomes_of(tasks, timeout=timeout)
    bad = {name.removeprefix("bad "): a for name, a in outcomes.items() if name.startswith("bad ")}
    others = [attempt for name, attempt in outcomes.items() if name.startswith("good")]
    assert {attempt.outcome for attempt in others} == {Outcome.FINISHED}
    return bad


@pytest.mark.slow
def test_a_packet_that_no_worker_sends_harms_no_other_cell() -> None:
    """The cell whose compiler writes to flacheck's socket is never called failing."""
    outcomes = among_others(*(f"write {packet}" for packet in sorted(PACKETS)))
    verdicts = {name: verdict(name, attempt) for name, attempt in outcomes.items()}
    assert set(verdicts.values()) <= {Verdict.COMPILES, Verdict.UNKNOWN}, verdicts


@pytest.mark.slow
def test_an_answer_of_no_known_form_is_unknown() -> None:
    """A malformed packet is retried, then unknown, with the fault as its reason."""
    outcomes = among_others(*(f"answer {name}" for name in sorted(ANSWERS)))
    assert outcomes.pop("answer unknown").outcome is Outcome.FINISHED
    for name, attempt in outcomes.items():
        assert attempt.outcome is Outcome.LOST, name
        assert "an answer" in str(judge(fake.cell("bad"), attempt).reason)


def test_a_signal_from_outside_again_and_again_is_unknown() -> None:
    """Repeated signals from outside make a cell unknown, since no compiler ends itself this way.

    (Python ignores SIGPIPE.)
    """
    names = executors.SIGNALS_FROM_OUTSIDE - {"SIGPIPE"}
    for how, attempt in among_others(*(f"signal {name}" for name in names)).items():
        record = judge(fake.cell("bad"), attempt)
        assert record.verdict is Verdict.UNKNOWN
        assert how.removeprefix("signal ") in str(record.reason)
        assert "memory" not in str(record.reason)


def test_a_worker_that_the_system_killed_was_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt is out of memory if the system's counter of such kills has grown."""
    counter = tmp_path / "vmstat"
    monkeypatch.setattr(executors, "VMSTAT", counter)
    counter.write_text("pgfault 5\noom_kill 3\n")
    pool = LocalPool(1, lambda task: 20.0)
    counter.write_text("pgfault 5\noom_kill 6\n")
    pool.submit([fake.task("bad", fake.kind({"bad": "signal SIGKILL"}))])
    ((_, attempt),) = [each for outcomes_of in pool.results() for each in outcomes_of]
    pool.close()
    record = judge(fake.cell("bad"), attempt)
    assert (record.verdict, record.code) == (Verdict.UNKNOWN, "FC902")


@pytest.mark.parametrize(
    ("limit", "code", "error"),
    [
        ("file", "FC904", "EFBIG"),
        ("child", "FC904", "SIGXFSZ"),
        ("memory", "FC902", "ENOMEM"),
        ("descriptors", "FC905", "EMFILE"),
    ],
)
def test_a_limit_of_the_machine_is_never_a_failure(limit: str, code: str, error: str) -> None:
    """The compiler's own message hides the cause, which is recorded with the exception."""
    what = f"exhaust {limit}"
    attempt = among_others(what, timeout=20.0)[what]
    record = judge(fake.cell("k"), attempt)
    assert (record.verdict, record.code, attempt.host_error) == (Verdict.UNKNOWN, code, error)
    assert error in (record.reason or "")


def test_a_limit_on_processor_time_is_a_time_out() -> None:
    """flacheck sets the CPU limit against orphaned assemblers; reaching it is a timeout."""
    (attempt,) = among_others("signal SIGXCPU").values()
    assert attempt.outcome is Outcome.TIMED_OUT


def test_a_fault_that_happens_once_is_forgotten(tmp_path: Path) -> None:
    """The cell is compiled by the next worker."""
    faults = ("signal SIGKILL", "signal SIGTERM", "server SIGKILL", "server SIGTERM", "write text")
    outcomes = among_others(*(f"once {tmp_path / str(n)} {how}" for n, how in enumerate(faults)))
    assert {attempt.outcome for attempt in outcomes.values()} == {Outcome.FINISHED}


@pytest.mark.slow
def test_a_cell_that_kills_its_server_again_and_again_is_unknown() -> None:
    """A cell that kills its server is tried a limited number of times."""
    names = ("SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT")
    for attempt in among_others(*(f"server {name}" for name in names)).values():
        assert attempt.outcome is Outcome.LOST
        assert verdict("bad", attempt) is Verdict.UNKNOWN


@pytest.mark.slow
def test_a_cell_that_stops_its_server_and_dies_is_unknown() -> None:
    """No process would report the end, so the cell is tried again elsewhere, a few times."""
    (attempt,) = among_others("stopped").values()
    assert attempt.outcome is Outcome.LOST
    assert attempt.log == "the worker's server was stopped, 3 times"
    assert verdict("bad", attempt) is Verdict.UNKNOWN


def test_a_stopped_server_is_not_blamed_on_the_next_cell() -> None:
    """One cell stops the server and ends; the next cell gets its result from another server."""
    kind = fake.kind({"stops": "server SIGSTOP", "bad": "abort x: Assertion `y' failed."})
    tasks = [fake.task(name, kind) for name in ("good", "stops", "bad", "good at last")]
    outcomes = outcomes_of(tasks)
    assert outcomes["bad"].outcome is Outcome.DIED
    assert {outcomes[name].outcome for name in ("good", "stops", "good at last")} == {
        Outcome.FINISHED
    }


@pytest.mark.slow
def test_a_stopped_server_does_not_hold_up_a_time_out() -> None:
    """The worker is killed at its timeout without a report of the server."""
    kind = fake.kind({"stops": "server SIGSTOP", "slow": "hang"})
    outcomes = outcomes_of([fake.task(name, kind) for name in ("stops", "slow", "good at last")])
    assert outcomes["slow"].outcome is Outcome.TIMED_OUT
    assert outcomes["slow"].seconds < TIMEOUT + executors.GRACE + 3
    assert outcomes["good at last"].outcome is Outcome.FINISHED


@pytest.mark.slow
def test_a_worker_that_stops_itself_times_out() -> None:
    """A stopped worker is killed at its timeout."""
    (attempt,) = among_others("signal SIGSTOP").values()
    assert attempt.outcome is Outcome.TIMED_OUT


@pytest.mark.slow
def test_a_server_that_is_stopped_lets_its_worker_go_on() -> None:
    """Answers come from the worker itself."""
    (attempt,) = among_others("server SIGSTOP").values()
    assert attempt.outcome is Outcome.FINISHED


def test_a_worker_that_closes_its_socket_is_unknown() -> None:
    """The result of such a worker is lost."""
    (attempt,) = among_others("deaf").values()
    assert attempt.outcome is Outcome.LOST
    assert "socket" in (judge(fake.cell("bad"), attempt).reason or "")


def test_a_long_answer_arrives() -> None:
    """A log of characters that JSON writes as twelve is longer than a packet."""
    (attempt,) = among_others("log 100000").values()
    assert attempt.outcome is Outcome.RAISED
    assert len(attempt.log) > 30_000


@pytest.mark.parametrize("size", [1_000, 300_000, 1_000_000])
def test_a_long_request_arrives(size: int) -> None:
    """An admitted source may have a million characters, of which JSON writes each as six."""
    kind = fake.kind({})
    tasks = [fake.task(f"k{n}", kind, text="é" * size) for n in range(5)]
    assert {a.outcome for a in outcomes_of(tasks, jobs=2, timeout=30).values()} == {
        Outcome.FINISHED
    }


@pytest.mark.parametrize(
    "start",
    [
        "die",
        "exit",
        "broken",
        *(pytest.param(start, marks=pytest.mark.slow) for start in ("hang", "spin", "stop")),
    ],
)
def test_a_compiler_that_does_not_start_is_unknown_for_all_its_cells(start: str) -> None:
    """Within the time that a start may take; others are untouched."""
    bad, good = fake.kind({"start": start}, "0.9"), fake.kind({})
    tasks = [fake.task(f"bad{n}", bad) for n in range(20)] + [fake.task("good", good)]
    outcomes = outcomes_of(tasks)
    assert outcomes.pop("good").outcome is Outcome.FINISHED
    assert {attempt.outcome for attempt in outcomes.values()} == {Outcome.NOT_STARTED}


def test_a_worker_that_cannot_be_started_is_unknown() -> None:
    """The system has no process for the worker, or its interpreter is missing."""
    kind = fake.kind({})
    absent = type(kind)(kind.name, kind.config, python="/nowhere/python")
    assert outcomes_of([fake.task("a", absent)])["a"].outcome is Outcome.NOT_STARTED


def test_a_worker_that_takes_no_request_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request fails to send when the system has run out of descriptors."""
    monkeypatch.setattr(Worker, "send", lambda worker, request, fresh=False: False)
    attempt = outcomes_of([fake.task("a", fake.kind({}))])["a"]
    assert (attempt.outcome, attempt.log) == (Outcome.NOT_STARTED, "it takes no request")


def test_nobody_elses_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a child of the server is killed, whatever process id the compiler sends."""
    hello = {"event": "hello", "pid": os.getpid()}
    worker = Worker(fake.kind({}))
    try:
        assert worker.receive()["event"] == "ready"
        monkeypatch.setattr(sandbox.channel, "receive", lambda sock: hello)
        assert worker.receive() == hello
        assert worker._child is None
    finally:
        worker.close()


def descendants(pid: int) -> list[int]:
    """All processes below this one, parents first."""
    below: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            below += [child, *descendants(child)]
    return below
