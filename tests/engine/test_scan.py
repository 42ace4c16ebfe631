"""The scan loop, end to end over the fake toolchain: real workers, real store, real rules."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flacheck.engine import loop
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.judge import judge
from flacheck.engine.loop import Loop, Timeouts
from flacheck.engine.provider import Unavailable
from flacheck.model import Attempt, Cell, Outcome, Purpose, Record, Verdict
from flacheck.store import Store
from tests import fake
from tests.forked import Script
from tests.made_records import records_in

ASSERTION = "abort LinearLayout.cpp:562: LinearLayout LinearLayout::reshapeOuts(int) const: Assertion `size == want' failed."
TABLE: dict[str, Any] = {
    "bad": {"==1.0": ASSERTION, "else": "compile"},
    "warps": {"by": "num_warps", "8": ASSERTION},
    "shared": "shared 245760",
    "raising": "raise PassManager::run failed",
    "endless": "spin",
    "bomb": "bomb",
    "silent": "fault",
}


# The test's replacement for the provider's method.
ANSWERS = {"kind_of", "refuses"}


def run(
    store: Store, cells: Sequence[Cell], table: dict[str, Any] = TABLE, **changes: Any
) -> list[Record]:
    provider = fake.Provider(table, **{name: changes.pop(name) for name in ANSWERS & set(changes)})
    timeouts = Timeouts(changes.pop("retry_after", None) or 60)
    pool = LocalPool(changes.pop("jobs", 2), timeouts)
    scan = Loop(provider, store.begin_run({}, "fake", {}), store, pool, timeouts, **changes)
    try:
        return list(scan.records(cells))
    finally:
        pool.close()


def test_verdicts_come_with_code_stage_and_signature(store: Store) -> None:
    """Each kind of failure has its code; a limit of the machine is unknown, not a failure."""
    cells = [fake.cell(name) for name in ("good", "bad", "shared", "bomb", "silent")]
    records = {record.kernel: record for record in run(store, cells)}
    assert {name: (r.verdict.value, r.code, r.stage) for name, r in records.items()} == {
        "fake.good": ("compiles", None, "lower"),
        "fake.bad": ("fails", "FC302", "lower"),
        "fake.shared": ("fails", "FC501", "load"),
        "fake.bomb": ("unknown", "FC902", "lower"),
        "fake.silent": ("fails", "FC000", "lower"),
    }
    assert records["fake.bad"].signal == "SIGABRT"
    assert "reshapeOuts" in (records["fake.bad"].signature or "")
    assert records["fake.shared"].tolerated
    assert records["fake.shared"].resources["shared"] == 245760


@pytest.mark.slow
def test_a_time_out_is_unknown_and_asked_again_only_with_more_time(store: Store) -> None:
    """A repetition with the same limit would end the same way."""
    cells = [fake.cell("endless")]
    assert [(r.verdict, r.code) for r in run(store, cells, retry_after=1.0)] == [
        (Verdict.UNKNOWN, "FC901")
    ]
    assert run(store, cells, retry_after=1.0)[0].cached
    assert not run(store, cells, retry_after=3.0)[0].cached


def test_a_second_scan_compiles_nothing(store: Store) -> None:
    """Every record comes from the store, and belongs to the second run too."""
    cells = [
        fake.cell(name, num_warps=warps) for name in ("good", "bad", "warps") for warps in (4, 8)
    ]
    first = run(store, cells)
    second = run(store, cells)
    assert not any(record.cached for record in first)
    assert all(record.cached for record in second)
    assert {r.key: (r.verdict, r.signature) for r in first} == {
        r.key: (r.verdict, r.signature) for r in second
    }
    assert len(list(store.records(store.run("last").id))) == len(cells)


def test_fresh_compiles_again_and_keeps_the_old_records(store: Store) -> None:
    """Nothing stored is overwritten."""
    cells = [fake.cell("good")]
    run(store, cells)
    assert not run(store, cells, again=True)[0].cached
    assert [len(list(store.records(entry.id))) for entry in store.runs()] == [1, 1]


def test_a_failure_is_confirmed_in_a_fresh_worker(store: Store) -> None:
    """A failure that does not repeat in a fresh worker is unknown and unstable, with both
    signatures."""
    table = {"used": "pid", "flaky": ASSERTION.replace("abort", "flaky")}
    cells = [fake.cell("used"), fake.cell("flaky")]
    records = {record.kernel: record for record in run(store, cells, table, jobs=1)}
    assert records["fake.flaky"].verdict is Verdict.UNKNOWN
    assert (records["fake.flaky"].reason or "").startswith("unstable: FC302:lower:reshapeOuts")
    assert (records["fake.flaky"].reason or "").endswith("then compiles")


@pytest.mark.parametrize(("seconds", "cached"), [(60.0, False), (300.0, True)])
def test_a_time_out_with_less_time_than_a_scan_gives_is_no_answer(
    store: Store, seconds: float, cached: bool
) -> None:
    """A search for fallbacks gives a candidate one minute, a scan five."""
    cell = fake.cell("good")
    timed_out = judge(cell, Attempt(Outcome.TIMED_OUT, seconds=seconds))
    store.add(store.begin_run({}, purpose=Purpose.FALLBACKS), timed_out)
    timeouts = Timeouts()
    pool = LocalPool(1, timeouts)
    scan = Loop(fake.Provider(TABLE), store.begin_run({}, "fake"), store, pool, timeouts)
    (record,) = scan.records([cell])
    pool.close()
    assert record.cached is cached
    assert (record.verdict is Verdict.COMPILES) is not cached


def test_a_target_the_release_does_not_know_is_skipped(store: Store) -> None:
    """The skipped cell has the reason, and no worker starts."""
    records = run(
        store,
        [fake.cell("good")],
        refuses=lambda cell: "1.0 knows no sm90",
        kind_of=lambda cell: 1 / 0,
    )
    assert [(r.verdict, r.reason) for r in records] == [(Verdict.SKIPPED, "1.0 knows no sm90")]


def test_a_toolchain_that_cannot_be_had_is_unknown_and_asked_again(store: Store) -> None:
    """The cells get FC903 with the reason; a wheel may exist later."""
    absent = Unavailable(Verdict.UNKNOWN, "no wheel for CPython 3.14", "FC903")
    cells = [fake.cell("good")]
    records = run(store, cells, kind_of=lambda cell: absent)
    assert [(r.verdict, r.code, r.reason) for r in records] == [
        (Verdict.UNKNOWN, "FC903", "no wheel for CPython 3.14")
    ]
    assert run(store, cells)[0].verdict is Verdict.COMPILES


@pytest.mark.slow
def test_a_slow_cell_of_a_long_run_comes_last(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first attempt is ended so that the others have their turn."""
    monkeypatch.setattr(loop, "_PATIENCE", 0.5)
    cells = [fake.cell("endless"), *(fake.cell("good", n=n) for n in range(20))]
    records = run(store, cells, retry_after=3.0, jobs=1)
    assert [record.verdict for record in records] == [*[Verdict.COMPILES] * 20, Verdict.UNKNOWN]
    assert records[-1].seconds >= 3.0


KILL_SCRIPT = """
import sys
from pathlib import Path
from flacheck.store import Store
from tests import fake
from tests.engine import test_scan
with Store.open(Path(sys.argv[1])) as store:
    cells = [fake.cell("slowly", n=n) for n in range(2000)]
    test_scan.run(store, cells, {"*": "compile"})
"""


def test_kill_9_in_mid_scan_loses_nothing(tmp_path: Path) -> None:
    """The second start compiles only what the first had not stored; the database is whole."""
    parent = Script(KILL_SCRIPT, tmp_path)
    file = tmp_path / "flacheck.sqlite"
    end = time.monotonic() + 30
    while records_in(file) < 50 and time.monotonic() < end:
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    records = records_in(file)
    assert 50 <= records < 2000
    assert Script(KILL_SCRIPT, tmp_path).wait() == 0
    with sqlite3.connect(file) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*), count(DISTINCT key) FROM records").fetchone() == (
            2000,
            2000,
        )


@pytest.mark.parametrize(("timeout", "seconds"), [(30.0, 30.0), (59.0, 59.0), (60.0, 20.0)])
def test_only_a_much_longer_timeout_is_shortened(
    store: Store, timeout: float, seconds: float
) -> None:
    """A first attempt that could end as its last one keeps all its time."""
    tasks: list[Task] = []
    timeouts = Timeouts(timeout)

    def note(task: Task) -> float:
        tasks.append(task)
        return timeouts(task)

    pool = LocalPool(1, note)
    try:
        scan = Loop(fake.Provider(TABLE), store.begin_run({}, "fake", {}), store, pool, timeouts)
        list(scan.records([fake.cell("good")]))
    finally:
        pool.close()
    timeouts.postponable = 1
    assert timeouts(tasks[0]) == seconds
    ended = Attempt(Outcome.TIMED_OUT, seconds=seconds)
    assert timeouts.is_early(tasks[0], ended) is (seconds < timeout)


@pytest.mark.slow
def test_a_cell_that_takes_long_is_compiled_last(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its whole time then."""
    monkeypatch.setattr(loop, "_PATIENCE", 0.5)
    monkeypatch.setattr(loop, "_LONG_RUN", 3)
    cells = [fake.cell(name) for name in ("endless", "good", "shared")]
    records = run(store, cells, retry_after=3.0, jobs=1)
    assert [each.kernel for each in records] == ["fake.good", "fake.shared", "fake.endless"]
    assert records[-1].verdict is Verdict.UNKNOWN
    assert records[-1].seconds >= 3.0


def test_no_worker_is_left_when_the_caller_stops_early(store: Store) -> None:
    """Closing the pool early ends all its processes."""
    cells = [fake.cell("endless"), fake.cell("good")]
    timeouts = Timeouts(60)
    pool = LocalPool(2, timeouts)
    run = store.begin_run({}, "fake", {})
    records = Loop(fake.Provider(TABLE), run, store, pool, timeouts).records(cells)
    assert next(records).kernel == "fake.good"
    servers = [slot.worker._server.pid for slot in pool._slots if slot.worker]
    pool.close()
    assert servers
    assert not any(os.path.exists(f"/proc/{pid}") for pid in servers)
