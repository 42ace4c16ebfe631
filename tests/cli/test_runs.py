"""`flacheck runs`: the stored runs, and their removal."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flacheck.cli import app
from flacheck.errors import Exit
from flacheck.model import KeySet, Question, RequestedCells
from flacheck.store import Store
from tests.made_records import record
from tests.schemas import validate_json


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["runs", *words])


def key(number: int) -> str:
    return f"{number:032x}"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str, Path]:
    """Create two scans that share the record 2 of the records 1, 2 and 3."""
    with Store.open(tmp_path) as store:
        ids = []
        for number in (1, 3):
            keys = KeySet({key(number): "a", key(2): "b"})
            requested_cells = RequestedCells("triton==3.2.0", "sm90", 2, keys.digest)
            question = Question(f"matrix-{number}", asked=(requested_cells,))
            ids.append(store.begin_run({}, question=question, key_sets=[keys]))
            store.add(ids[-1], record(key=key(number)))
        store.add(ids[0], record(key=key(2)))
        store.add_cached(ids[1], [record(key=key(2))])
        store.finish_run(ids[0])
    return ids[0], ids[1], tmp_path


def test_runs_are_listed_with_subject_and_records(runs: tuple[str, str, Path]) -> None:
    """An unfinished run is listed as interrupted."""
    first, second, folder = runs
    lines = [
        " ".join(line.split()) for line in run("list", "--store", str(folder)).stdout.splitlines()
    ]
    (one,) = [line for line in lines if line.startswith(first)]
    (other,) = [line for line in lines if line.startswith(second)]
    assert one.endswith("scan 2 2 finished matrix-1")
    assert other.endswith("scan 2 2 interrupted matrix-3")


def test_a_removed_run_takes_only_its_own_records(runs: tuple[str, str, Path]) -> None:
    """Removing a run removes only records that no other run contains."""
    first, second, folder = runs
    outcome = run("rm", first, "--store", str(folder))
    assert outcome.exit_code == Exit.OK
    assert "1 runs and 1 records that no other run contains removed." in outcome.stdout
    with Store.open(folder, create=False) as store:
        assert [each.id for each in store.runs()] == [second]
        assert {each.key for each in store.latest()} == {key(2), key(3)}
    with sqlite3.connect(folder / "flacheck.sqlite") as db:
        assert db.execute("SELECT count(*) FROM key_sets").fetchone() == (1,)


def test_a_dry_run_removes_nothing(runs: tuple[str, str, Path]) -> None:
    """The JSON of a dry run lists what would be removed."""
    first, second, folder = runs
    words = ("rm", first[:-1], second, "--dry-run", "--format", "json", "--store", str(folder))
    value = json.loads(run(*words).stdout)
    validate_json("runs", value)
    assert (value["action"], value["records_removed"]) == ("dry-run", 3)
    with Store.open(folder, create=False) as store:
        assert len(store.runs()) == 2


def test_an_unknown_run_is_an_error_with_the_candidates(runs: tuple[str, str, Path]) -> None:
    """An unknown run is an error, and nothing is removed."""
    first, second, folder = runs
    outcome = run("rm", first, "20990101", "--store", str(folder))
    assert outcome.exit_code == Exit.USAGE
    assert second in outcome.stderr
    with Store.open(folder, create=False) as store:
        assert len(store.runs()) == 2
