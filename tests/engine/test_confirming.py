"""A failure is tried once more before it counts, and a failure that did not repeat confirms no
other cell.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from flacheck.engine.executors import LocalPool
from flacheck.engine.judge import judge
from flacheck.engine.loop import Loop, Timeouts
from flacheck.model import Attempt, Outcome, Verdict
from flacheck.store import Store
from tests import fake
from tests.engine.test_scan import ASSERTION, run


def test_unstable_is_unstable_for_all(store: Store) -> None:
    """If six cells abort depending on the worker's earlier work, none of them fails."""
    table = {"used": "pid", "flaky": ASSERTION.replace("abort", "flaky")}
    cells = []
    for warps in range(1, 7):
        cells += [fake.cell("used", num_warps=warps), fake.cell("flaky", num_warps=warps)]
    records = [r for r in run(store, cells, table, jobs=1) if r.kernel == "fake.flaky"]
    assert len(records) == 6
    assert Verdict.FAILS not in {record.verdict for record in records}
    assert sum((record.reason or "").startswith("unstable: FC302") for record in records) >= 1


def test_what_waits_for_a_confirmation_is_settled_with_it(store: Store) -> None:
    """Held records are stored and yielded once, in one run."""
    cells = [fake.cell("bad", num_warps=warps) for warps in range(1, 41)]
    records = run(store, cells, {"bad": ASSERTION}, jobs=2)
    assert Counter(record.verdict for record in records) == {Verdict.FAILS: 40}
    assert len(list(store.records(store.run("last").id))) == 40


def test_a_signal_from_outside_makes_no_cell_fail(tmp_path: Path, store: Store) -> None:
    """A signal that strikes each of 45 cells once fails none of them; a cell that always dies
    fails."""
    table = {f"k{n}": f"once {tmp_path / str(n)} fault" for n in range(45)}
    cells = [fake.cell(name) for name in table] + [fake.cell("always")]
    records = {r.kernel: r for r in run(store, cells, {**table, "always": "fault"})}
    assert records.pop("fake.always").verdict is Verdict.FAILS
    assert {record.verdict for record in records.values()} == {Verdict.UNKNOWN}
    assert all(str(record.reason).startswith("unstable") for record in records.values())


def test_a_cell_that_is_struck_twice_does_not_fail(tmp_path: Path, store: Store) -> None:
    """The more deaths did not repeat, the more repetitions a later death needs."""
    twice = {f"k{n}": f"twice {tmp_path / str(n)}" for n in range(5)}
    records = run(store, [fake.cell(name) for name in twice], twice, jobs=1)
    assert {record.verdict for record in records} == {Verdict.UNKNOWN}


def test_failures_that_did_not_repeat_raise_the_number_of_trials(
    tmp_path: Path, store: Store
) -> None:
    """After four cells with signals, a fifth cell gets three signals and then compiles."""
    table = {f"k{n}": f"once {tmp_path / str(n)} fault" for n in range(4)}
    table["later"] = f"twice {tmp_path / 'later'} 3"
    cells = [fake.cell(name) for name in table]
    records = {r.kernel: r for r in run(store, cells, table, jobs=1)}
    assert records["fake.later"].verdict is Verdict.UNKNOWN


def test_an_exit_without_a_word_vouches_for_no_other(tmp_path: Path, store: Store) -> None:
    """A cell that always exits without a message fails; cells that did it once do not."""
    table = {f"k{n}": f"once {tmp_path / str(n)} exit {n + 1}" for n in range(8)}
    cells = [fake.cell("always"), *map(fake.cell, table)]
    records = {r.kernel: r for r in run(store, cells, {**table, "always": "exit 3"}, jobs=1)}
    assert records.pop("fake.always").verdict is Verdict.FAILS
    assert {record.verdict for record in records.values()} == {Verdict.UNKNOWN}


def test_a_confirmed_failure_vouches_for_no_other_cell(tmp_path: Path, store: Store) -> None:
    """Beside a cell that always fails, cells that fail once with the same message do not fail."""
    for name, says in (("raise", "raise RuntimeError: x"), ("abort", ASSERTION)):
        table = {f"{name}{n}": f"once {tmp_path / f'{name}{n}'} {says}" for n in range(4)}
        always = f"{name} always"
        cells = [fake.cell(always), *map(fake.cell, table)]
        records = {r.kernel: r for r in run(store, cells, {**table, always: says}, jobs=1)}
        assert records.pop(f"fake.{always}").verdict is Verdict.FAILS
        assert {record.verdict for record in records.values()} == {Verdict.UNKNOWN}


def test_a_failure_under_a_compiler_that_was_removed_meanwhile_is_unknown(store: Store) -> None:
    """It is compiled again by the next scan, and then it fails."""
    missing = replace(fake.Provider({"bad": ASSERTION}), loss_of=lambda cell: "ptxas was removed")
    for provider, message in (
        (missing, (Verdict.UNKNOWN, "ptxas was removed")),
        (replace(missing, loss_of=lambda cell: None), (Verdict.FAILS, None)),
    ):
        timeouts = Timeouts(60)
        pool = LocalPool(1, timeouts)
        run = store.begin_run({}, "fake", {})
        (record,) = Loop(provider, run, store, pool, timeouts).records([fake.cell("bad")])
        pool.close()
        assert (record.verdict, record.reason) == message
        assert not record.cached


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Cannot find ptxas", "FC405"),
        ("PTXAS error: `ptxas` failed with error code -9", "FC905"),
        ("OSError: [Errno 24] Too many open files: '/proc/self/status'", "FC905"),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '<scratch>/cache-7/tmp1.ptx'",
            "FC905",
        ),
    ],
)
def test_what_the_machine_did_is_no_failure_and_is_asked_again(
    store: Store, message: str, code: str
) -> None:
    """A killed assembler, missing descriptors and an emptied temporary folder give unknown cells
    that run again."""
    for _ in range(2):
        (record,) = run(store, [fake.cell("bad")], {"bad": f"raise {message}"}, jobs=1)
        assert (record.verdict, record.code, record.cached) == (Verdict.UNKNOWN, code, False)


def test_an_unstable_cell_is_asked_again(tmp_path: Path, store: Store) -> None:
    """The next scan finds that it compiles."""
    table = {"struck": f"once {tmp_path / 'mark'} fault"}
    (first,) = run(store, [fake.cell("struck")], table, jobs=1)
    assert str(first.reason).startswith("unstable")
    (second,) = run(store, [fake.cell("struck")], table, jobs=1)
    assert (second.verdict, second.cached) == (Verdict.COMPILES, False)


def test_what_the_system_killed_for_want_of_memory_is_asked_again(store: Store) -> None:
    """A cell that the system killed runs again; one that met its own limit needs a higher limit."""
    cell = fake.cell("kernel")
    kill = Attempt(Outcome.OUT_OF_MEMORY, stage="lower", oom_killed=True)
    for attempt, is_reused in ((replace(kill, oom_killed=False), True), (kill, False)):
        record = judge(cell, attempt)
        assert record.code == "FC902"
        store.add(store.begin_run({}, "fake", {}), record)
        (settled_record,) = run(store, [cell], {}, jobs=1)
        assert settled_record.cached is is_reused
