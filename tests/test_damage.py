"""Stores that a disk has damaged, or that somebody sent: one error, and nothing gets further."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flacheck.capabilities.scan import views as session
from flacheck.errors import FlacheckError, StoreError
from flacheck.reports import render, scan
from flacheck.reports.document import Display
from flacheck.store import FILE, Store
from tests.made_records import failure, record
from tests.mutations import mutated, odd_values

CONTEXT = {
    "forms": [[None, "retention.chunk_fwd_o", "retention", "chunk"]],
    "kernels": ["retention.chunk_fwd_o"],
    "coverage": [
        {
            "package": "a==1",
            "toolchain": "triton==3.2.0",
            "launchable": 2,
            "recorded": 1,
            "missed": [{"kernel": "a:k", "reason": "nobody calls it"}],
        }
    ],
}
TABLES = {
    "records": ("key", "run", "verdict", "body"),
    "runs": ("id", "started", "finished", "matrix", "environment", "context", "purpose"),
}


def _filled(folder: Path) -> Path:
    """A store with a run of three records."""
    with Store.open(folder) as store:
        run = store.begin_run({"flacheck": "1"}, "quick", CONTEXT)
        store.add_many(run, [record(key="0" * 32), failure("FC302", key="1" * 32)])
        store.add(run, record("unknown", key="2" * 32, reason="out of memory", code="FC902"))
        store.finish_run(run)
    return folder / FILE


def _write(file: Path, table: str, row: int, column: str, value: Any) -> None:
    """Change a row of a table, as no flacheck would."""
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        db.execute("DROP TRIGGER IF EXISTS records_stay")
        sql = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
        # What the table itself refuses is no damage.
        with contextlib.suppress(sqlite3.IntegrityError):
            db.execute(sql, (value, row))


def _reported(folder: Path) -> None:
    with Store.open(folder, create=False) as store:
        view = session.view(store, ["last"])
        for format in ("table", "json", "jsonl", "markdown", "github"):
            for _ in render(format, scan.report(view), Display()):
                pass


@st.composite
def damages(draw: st.DrawFn, rows: dict[str, list[dict[str, Any]]]) -> tuple[Any, ...]:
    """A table, a row of it, a column, and what stands there now."""
    table = draw(st.sampled_from(sorted(TABLES)))
    column = draw(st.sampled_from(TABLES[table]))
    row = draw(st.integers(1, len(rows[table])))
    held = rows[table][row - 1][column]
    if column in ("body", "context", "environment") and draw(st.booleans() | st.just(True)):
        return table, row, column, json.dumps(draw(mutated(json.loads(held))))
    odd = draw(odd_values())
    if isinstance(odd, (dict, list)) or (isinstance(odd, int) and abs(odd) >= 2**63):
        odd = json.dumps(odd)
    if isinstance(odd, str):
        odd = odd.encode("utf-8", "replace").decode()
    return table, row, column, odd


def _rows(file: Path) -> dict[str, list[dict[str, Any]]]:
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.row_factory = sqlite3.Row
        return {
            table: [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY rowid")]
            for table in TABLES
        }


ANY = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@ANY
@given(data=st.data())
def test_a_damaged_row_is_reported_or_one_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever stands in a column, a report is made or one message says what is wrong."""
    folder = tmp_path_factory.mktemp("store")
    file = _filled(folder)
    _write(file, *data.draw(damages(_rows(file))))
    try:
        _reported(folder)
    except FlacheckError as error:
        assert str(error)


@ANY
@given(data=st.data())
def test_a_merge_takes_over_all_or_nothing(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What is bad stays where it is: the good store is as it was, and can be reported."""
    good, bad = tmp_path_factory.mktemp("good"), tmp_path_factory.mktemp("bad")
    _filled(good)
    _write(_filled(bad), *data.draw(damages(_rows(bad / FILE))))
    with Store.open(good) as store, Store.open(bad, create=False) as other:
        before = len(store.runs()), len(list(store.records(store.run().id)))
        try:
            store.merge(other)
        except FlacheckError:
            assert (len(store.runs()), len(list(store.records(store.run().id)))) == before
    try:
        _reported(good)
    except FlacheckError as error:
        raise AssertionError(f"the good store was harmed: {error}") from error


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    """With the file, and what to do."""
    file = _filled(tmp_path)
    _write(file, "records", 1, "body", '{"key": 5}')
    with pytest.raises(StoreError, match=r"flacheck.sqlite: the record .* is damaged .*restore it"):
        _reported(tmp_path)


@pytest.mark.parametrize("held", ["NaN", "Infinity"])
def test_a_number_that_json_does_not_have_is_damage(tmp_path: Path, held: str) -> None:
    """Python reads it, and no report could write it."""
    file = _filled(tmp_path)
    body = json.dumps({**record(key="0" * 32).to_json(), "seconds": 12345.5})
    _write(file, "records", 1, "body", body.replace("12345.5", held))
    with pytest.raises(StoreError, match="is damaged"):
        _reported(tmp_path)
