"""Slow compiles: by CPU time, confirmed by a second compile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flacheck.engine import slow_candidates
from flacheck.engine.executors import LocalPool
from flacheck.engine.loop import Loop, Timeouts
from flacheck.evidence.analysis import slow
from flacheck.evidence.analysis.observation import observe
from flacheck.evidence.analysis.slow import slow_compiles
from flacheck.model import Cell, Record
from flacheck.store import Store
from tests import fake

OLD, NEW = fake.cell("k", "1.0"), fake.cell("k", "2.0")
# Spinning processes for each processor.
LOAD = 3


def compile_cells(store: Store, *cells: Cell, **behaviours: str) -> Iterator[Record]:
    """Yield the records of cells of the fake compiler, whose releases 1.0 and 2.0 do `old`, `new`."""
    table = {"*": {"==1.0": behaviours["old"], "==2.0": behaviours["new"]}}
    timeouts = Timeouts(60)
    pool = LocalPool(1, timeouts)
    try:
        run = store.begin_run({}, "fake", {})
        yield from Loop(fake.Provider(table), run, store, pool, timeouts).records(cells)
    finally:
        pool.close()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compile of a fifth of a second may be slow."""
    monkeypatch.setattr(slow, "SECONDS", 0.2)
    monkeypatch.setattr(slow_candidates, "SECONDS", 0.2)


@pytest.fixture
def spinning() -> Iterator[None]:
    """A machine whose processors are shared by many."""
    spinners = []
    for _ in range(LOAD * (os.cpu_count() or 1)):
        spin = [sys.executable, "-I", "-S", "-c", "while True: pass"]
        spinners.append(subprocess.Popen(spin))
    yield
    for spinner in spinners:
        spinner.send_signal(signal.SIGKILL)
        spinner.wait()


def test_a_busy_machine_makes_no_compile_slow(
    tmp_path: Path, short: None, request: pytest.FixtureRequest
) -> None:
    """The clock may run several times as fast as the compiler, whose CPU time stays the same."""
    what = {"old": "burn 0.4", "new": "burn 0.4"}
    with Store.open(tmp_path) as store:
        (idle,) = compile_cells(store, OLD, **what)
        request.getfixturevalue("spinning")
        records = list(compile_cells(store, OLD, NEW, **what))
    busy = next(record for record in records if record.toolchain == NEW.toolchain)
    # The assembler's half is counted, and the clock is not. How far the clock runs ahead is the
    # scheduler's choice.
    assert 0.3 < busy.compile_seconds < 5 * idle.compile_seconds
    assert busy.seconds >= busy.compile_seconds
    assert slow_compiles(observe(records)) == {}


def test_a_slow_compile_is_confirmed_by_a_second_one(tmp_path: Path) -> None:
    """Both compiles take long, and the shorter time counts."""
    with Store.open(tmp_path) as store:
        records = list(compile_cells(store, OLD, NEW, old="slow 1", new="slow 90"))
        assert [record.compile_seconds for record in records] == [1.0, 90.0]
        assert set(slow_compiles(observe(records))) == {NEW.key}
        assert len(list(store.latest())) == 2


def test_a_hiccup_is_not_a_slow_compile(tmp_path: Path) -> None:
    """The second compile is quick, and its time is the record's."""
    with Store.open(tmp_path) as store:
        hiccup = f"hiccup 90 {tmp_path / 'mark'}"
        records = list(compile_cells(store, OLD, NEW, old="slow 1", new=hiccup))
        assert (tmp_path / "mark").exists()
        assert [record.compile_seconds for record in records] == [1.0, 1.0]
        assert len(list(store.latest())) == 2


def test_a_long_compile_of_one_release_is_compiled_once(tmp_path: Path) -> None:
    """Without another release there is nothing to compare the compile with."""
    with Store.open(tmp_path) as store:
        hiccup = f"hiccup 90 {tmp_path / 'mark'}"
        (record,) = compile_cells(store, NEW, old="slow 1", new=hiccup)
        assert record.compile_seconds == 90.0


def test_an_interrupted_run_keeps_a_compile_that_waits_for_its_second(tmp_path: Path) -> None:
    """The first compile's time counts."""
    with Store.open(tmp_path) as store:
        running = compile_cells(store, OLD, NEW, old="slow 90", new="slow 1")
        assert next(running).toolchain == NEW.toolchain
        running.close()  # type: ignore[attr-defined]
        assert {record.toolchain for record in store.latest()} == {OLD.toolchain, NEW.toolchain}
