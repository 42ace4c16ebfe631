"""A scan killed at any cell: gate and report agree on how much of the question is answered."""

from __future__ import annotations

import json
import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from flacheck.engine.judge import judge
from flacheck.model import Attempt, Cell, Outcome, Purpose, Record
from flacheck.pipeline.plan import Plan
from flacheck.store import Store
from tests import fake
from tests.cli.test_cli import flacheck
from tests.forked import Script
from tests.made_records import asked_of, record

CELLS = 400
# The parent dies by its own hand after a number of records, as by kill -9: nothing is closed.
KILLED = """
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
    made = (fake.cell("good", "3.4.0", n=number) for number in range(CELLS))
    return [replace(cell, toolchain="triton==3.4.0") for cell in made]


def _compiled(cell: Cell) -> Record:
    return judge(cell, Attempt(Outcome.FINISHED, stage="lower"))


def begin(store: Store, asked: list[Cell]) -> str:
    """A run that asks for all of them."""
    question, sets = Plan("seeds", asked, {}).asks()
    return store.begin_run({}, "seeds", {}, question=question, key_sets=sets.values())


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 10])
def test_kill_9_at_random_cells_is_partial_everywhere(tmp_path: Path, kills: int) -> None:
    """Each start goes on where the last one died; only the whole is good."""
    (tmp_path / "r.txt").write_text("triton==3.4.0\n")
    store = tmp_path / ".flacheck"
    stops = sorted(random.Random(11).sample(range(1, CELLS - 20), kills))
    for stop in stops:
        assert Script(KILLED, store, stop).wait() == -signal.SIGKILL
        (answered, asked) = _reported(tmp_path)
        assert stop <= answered < CELLS
        assert asked == CELLS
        gated = flacheck("gate", "r.txt", "--format", "json", cwd=tmp_path)
        assert gated.returncode == 3
        (version,) = json.loads(gated.stdout)["versions"]
        assert version["state"] == "partial"
        assert (version["answered"], version["asked"]) == (answered, asked)
    _told(tmp_path, answered, asked)
    assert Script(KILLED, store, 0).wait() == 0
    assert flacheck("gate", "r.txt", cwd=tmp_path).returncode == 0


def _reported(folder: Path) -> tuple[int, int]:
    """How much is answered, as the report has it in every format."""
    found = json.loads(flacheck("report", "--format", "json", cwd=folder).stdout)
    (partial,) = found["summary"]["partial"]
    (asked,) = found["run"]["question"]["asked"]
    assert found["summary"]["known_good"] == []
    assert (asked["answered"], asked["cells"]) == (partial["answered"], partial["asked"])
    return partial["answered"], partial["asked"]


def _told(folder: Path, answered: int, asked: int) -> None:
    """The same in what people read, and in a comparison with the whole question."""
    said = f"{answered}/{asked} cells"
    whole = [_compiled(cell) for cell in cells()]
    with Store.open(folder / "other") as store:
        run = begin(store, cells())
        store.add_many(run, whole)
    written = ("report", "--store", "other", "--format", "json", "-o", "whole.json")
    assert flacheck(*written, cwd=folder).returncode == 0
    compared = flacheck("diff", "run:last", "whole.json", "--format", "json", cwd=folder)
    found = json.loads(compared.stdout)
    assert (found["from"]["partial"], found["to"]["partial"]) == (f"{answered}/{asked}", None)
    assert f"is partial: {said} answered" in found["answer"]
    assert compared.returncode == 3
    assert f"{said} of seeds on sm90" in flacheck("gate", "r.txt", cwd=folder).stdout
    for form in ("table", "markdown"):
        report = flacheck("report", "--format", form, cwd=folder).stdout
        assert f"3.4.0 · sm90: partial: {said} answered" in report
        assert f"No answer yet: {answered} of {asked} cells are compiled." in report


@pytest.mark.parametrize("kernels", [1, 3])
def test_a_run_of_an_older_flacheck_is_partial_everywhere(tmp_path: Path, kernels: int) -> None:
    """It kept no question, so nobody knows what is missing; both say so."""
    (tmp_path / "r.txt").write_text("triton==3.2.0\n")
    made = [record(kernel=f"m:kernel{number}") for number in range(kernels)]
    with Store.open(tmp_path / ".flacheck") as store:
        store.add_many(store.begin_run({}, "seeds", {}), made)
    gated = flacheck("gate", "r.txt", cwd=tmp_path, COLUMNS="200")
    assert gated.returncode == 3
    assert f"{kernels}/? cells of seeds on sm90 (the scan was stored by an older" in gated.stdout
    report = flacheck("report", cwd=tmp_path, COLUMNS="200").stdout
    assert f"partial: {kernels}/? cells answered (the scan was stored by an older" in report
    assert "triton==3.2.0" not in report


def test_a_bisection_of_one_cell_makes_nothing_good(tmp_path: Path) -> None:
    """Its record is in the store, and its release has none for the gate."""
    (tmp_path / "r.txt").write_text("triton==3.2.0\n")
    made = record()
    with Store.open(tmp_path / ".flacheck") as store:
        question, sets = Plan("bisect", [made.cell], {}).asks()
        run = store.begin_run({}, "bisect", {}, Purpose.BISECT, question, sets.values())
        store.add_many(run, [made])
    gated = flacheck("gate", "r.txt", "--format", "json", cwd=tmp_path)
    assert gated.returncode == 3
    assert json.loads(gated.stdout)["versions"][0]["state"] == "no-record"


def _shard(folder: Path, asked: list[Record], answered: list[Record]) -> None:
    with Store.open(folder) as store:
        question, sets = asked_of(asked, "fla==1")
        run = store.begin_run({}, "fla==1", {}, question=question, key_sets=sets)
        store.add_many(run, answered)


@pytest.mark.parametrize(("same", "code"), [(True, 0), (False, 3)])
def test_shards_merge_to_a_whole_or_say_why_not(tmp_path: Path, same: bool, code: int) -> None:
    """Of one capture they do; of two the merge says that they do not."""
    made = [record(kernel=f"m:kernel{number}") for number in range(4)]
    other = made
    if not same:
        other = [record(kernel=f"m:kernel{number}") for number in range(1, 5)]
    _shard(tmp_path / ".flacheck", made, made[:2])
    _shard(tmp_path / "second", other, other[2:])
    merged = flacheck("report", "--merge", "second", "--format", "json", cwd=tmp_path)
    assert ("do not make a whole" in merged.stderr) is not same
    good = json.loads(merged.stdout)["summary"]["known_good"]
    assert [release["triton"] for release in good] == (["3.2.0"] if same else [])
    (tmp_path / "r.txt").write_text("triton==3.2.0\n")
    assert flacheck("gate", "r.txt", cwd=tmp_path).returncode == code
