"""A scan killed at any cell: gate and report agree on how much of the question is answered."""

from __future__ import annotations

import json
import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from flacheck.engine.judge import judge
from flacheck.model import Attempt, Cell, Outcome, Record
from flacheck.pipeline.plan import Plan
from flacheck.store import Store
from tests import fake
from tests.cli.test_cli import flacheck
from tests.forked import Script

CELLS = 400
# The parent kills itself after a number of records, so nothing is closed.
SELF_KILLING = """
import os, signal, sys
from pathlib import Path
from flacheck.engine.executors import LocalPool
from flacheck.engine.loop import Loop, Timeouts
from flacheck.store import Store
from tests import fake
from tests.capabilities.scan import test_partial
cells = test_partial.cells()
with Store.open(Path(sys.argv[1])) as store:
    run = test_partial.begin(store, cells)
    timeouts = Timeouts(60)
    pool = LocalPool(2, timeouts)
    loop = Loop(fake.Provider({"*": "compile"}), run, store, pool, timeouts)
    for count, _ in enumerate(loop.records(cells), 1):
        if count == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
    pool.close()
"""


def cells() -> list[Cell]:
    """Cells of the fake compiler under the name of a Triton release."""
    records = (fake.cell("good", "3.4.0", n=number) for number in range(CELLS))
    return [replace(cell, toolchain="triton==3.4.0") for cell in records]


def _compile(cell: Cell) -> Record:
    return judge(cell, Attempt(Outcome.FINISHED, stage="lower"))


def begin(store: Store, requested: list[Cell]) -> str:
    """Begin a run that requests all cells."""
    question, sets = Plan("seeds", requested, {}).asks()
    return store.begin_run({}, "seeds", {}, question=question, key_sets=sets.values())


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 10])
def test_kill_9_at_random_cells_is_partial_everywhere(tmp_path: Path, kills: int) -> None:
    """A restarted scan continues, and only a complete one is good."""
    (tmp_path / "r.txt").write_text("triton==3.4.0\n")
    store = tmp_path / ".flacheck"
    stops = sorted(random.Random(11).sample(range(1, CELLS - 20), kills))
    for stop in stops:
        assert Script(SELF_KILLING, store, stop).wait() == -signal.SIGKILL
        (answered_count, cell_count) = _read_counts(tmp_path)
        assert stop <= answered_count < CELLS
        assert cell_count == CELLS
        outcome = flacheck("gate", "r.txt", "--format", "json", cwd=tmp_path)
        assert outcome.returncode == 3
        (version,) = json.loads(outcome.stdout)["versions"]
        assert version["state"] == "partial"
        assert (version["answered"], version["asked"]) == (answered_count, cell_count)
    _check_formats(tmp_path, answered_count, cell_count)
    assert Script(SELF_KILLING, store, 0).wait() == 0
    assert flacheck("gate", "r.txt", cwd=tmp_path).returncode == 0


def _read_counts(folder: Path) -> tuple[int, int]:
    """Return how many cells are answered and requested, equal in all parts of the report."""
    report = json.loads(flacheck("report", "--format", "json", cwd=folder).stdout)
    (partial,) = report["summary"]["partial"]
    (requested,) = report["run"]["question"]["asked"]
    assert report["summary"]["known_good"] == []
    assert (requested["answered"], requested["cells"]) == (partial["answered"], partial["asked"])
    return partial["answered"], partial["asked"]


def _check_formats(folder: Path, answered_count: int, cell_count: int) -> None:
    """Check the progress in the tables, in the gate and in a comparison."""
    progress = f"{answered_count}/{cell_count} cells"
    whole = [_compile(cell) for cell in cells()]
    with Store.open(folder / "other") as store:
        run = begin(store, cells())
        store.add_many(run, whole)
    command = ("report", "--store", "other", "--format", "json", "-o", "whole.json")
    assert flacheck(*command, cwd=folder).returncode == 0
    outcome = flacheck("diff", "run:last", "whole.json", "--format", "json", cwd=folder)
    comparison = json.loads(outcome.stdout)
    assert (comparison["from"]["partial"], comparison["to"]["partial"]) == (
        f"{answered_count}/{cell_count}",
        None,
    )
    assert f"is partial: {progress} answered" in comparison["answer"]
    assert outcome.returncode == 3
    assert f"{progress} of seeds on sm90" in flacheck("gate", "r.txt", cwd=folder).stdout
    for form in ("table", "markdown"):
        report = flacheck("report", "--format", form, cwd=folder).stdout
        assert f"3.4.0 · sm90: partial: {progress} answered" in report
        assert f"No answer yet: {answered_count} of {cell_count} cells are compiled." in report
