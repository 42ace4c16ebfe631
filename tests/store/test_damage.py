"""Damaged or hostile stores: one error, and no damaged value leaves the store."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from flacheck.capabilities.scan import views as session
from flacheck.cli import app
from flacheck.errors import Exit, FlacheckError, StoreError
from flacheck.pipeline.plan import Plan
from flacheck.reports import render, scan
from flacheck.reports.document import Display
from flacheck.store import FILE, Store
from tests import fake
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
    "runs": (
        "id",
        "started",
        "finished",
        "matrix",
        "environment",
        "context",
        "purpose",
        "question",
    ),
    "key_sets": ("digest", "body"),
    "kernels": ("id", "body"),
    "cells": ("key", "kernel", "stage", "until"),
}


def fill(folder: Path) -> Path:
    """A store with a run of three records."""
    with Store.open(folder) as store:
        cells = [fake.cell("good", "3.4.0"), fake.cell("bad", "3.4.0")]
        question, key_sets = Plan("quick", cells, {}).asks()
        store.add_cells(cells)
        run = store.begin_run(
            {"flacheck": "1"}, "quick", CONTEXT, question=question, key_sets=key_sets.values()
        )
        store.add_many(run, [record(key="0" * 32), failure("FC302", key="1" * 32)])
        store.add(run, record("unknown", key="2" * 32, reason="out of memory", code="FC902"))
        store.finish_run(run)
    return folder / FILE


def write(file: Path, table: str, row: int, column: str, value: Any) -> None:
    """Change a row of a table, as no flacheck would."""
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        db.execute("DROP TRIGGER IF EXISTS records_stay")
        first = TABLES[table][0]
        key = f"SELECT {first} FROM {table} ORDER BY {first} LIMIT 1 OFFSET ?"
        sql = f"UPDATE {table} SET {column} = ? WHERE {first} = ({key})"
        # A row that the table itself refuses is not damaged.
        with contextlib.suppress(sqlite3.IntegrityError):
            db.execute(sql, (value, row - 1))


def report_all(folder: Path) -> None:
    with Store.open(folder, create=False) as store:
        view = session.view(store, ["last"])
        for format in ("table", "json", "jsonl", "markdown", "github"):
            for _ in render(format, scan.report(view), Display()):
                pass


@st.composite
def damages(draw: st.DrawFn, rows: dict[str, list[dict[str, Any]]]) -> tuple[Any, ...]:
    """A table, a row of it, a column, and the new value."""
    table = draw(st.sampled_from(sorted(TABLES)))
    column = draw(st.sampled_from(TABLES[table]))
    row = draw(st.integers(1, len(rows[table])))
    value = rows[table][row - 1][column]
    is_json = isinstance(value, str) and value.startswith("{")
    if is_json and draw(st.booleans() | st.just(True)):
        return table, row, column, json.dumps(draw(mutated(json.loads(value))))
    odd = draw(odd_values())
    if isinstance(odd, (dict, list)) or (isinstance(odd, int) and abs(odd) >= 2**63):
        odd = json.dumps(odd)
    if isinstance(odd, str):
        odd = odd.encode("utf-8", "replace").decode()
    return table, row, column, odd


def rows(file: Path) -> dict[str, list[dict[str, Any]]]:
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.row_factory = sqlite3.Row
        return {
            table: [
                dict(row)
                for row in db.execute(f"SELECT * FROM {table} ORDER BY {TABLES[table][0]}")
            ]
            for table in TABLES
        }


ANY = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@pytest.mark.slow
@ANY
@given(data=st.data())
def test_a_damaged_row_is_reported_or_one_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A store with any value in any column gives a report or one message."""
    folder = tmp_path_factory.mktemp("store")
    file = fill(folder)
    write(file, *data.draw(damages(rows(file))))
    try:
        report_all(folder)
    except FlacheckError as error:
        assert str(error)


@pytest.mark.slow
@ANY
@given(data=st.data())
def test_a_merge_takes_over_all_or_nothing(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A failed merge leaves the good store as it was."""
    good, bad = tmp_path_factory.mktemp("good"), tmp_path_factory.mktemp("bad")
    fill(good)
    write(fill(bad), *data.draw(damages(rows(bad / FILE))))
    with Store.open(good) as store, Store.open(bad, create=False) as other:
        before = len(store.runs()), len(list(store.records(store.run().id)))
        try:
            store.merge(other)
        except FlacheckError:
            assert (len(store.runs()), len(list(store.records(store.run().id)))) == before
    try:
        report_all(good)
    except FlacheckError as error:
        raise AssertionError(f"the good store was harmed: {error}") from error


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    """The message has the file and the remedy."""
    file = fill(tmp_path)
    write(file, "records", 1, "body", '{"key": 5}')
    with pytest.raises(StoreError, match=r"flacheck.sqlite: the record .* is damaged .*restore it"):
        report_all(tmp_path)


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_a_number_that_json_does_not_have_is_damage(tmp_path: Path, number: str) -> None:
    """Python reads it, and no report could write it."""
    file = fill(tmp_path)
    body = json.dumps({**record(key="0" * 32).to_json(), "seconds": 12345.5})
    write(file, "records", 1, "body", body.replace("12345.5", number))
    with pytest.raises(StoreError, match="is damaged"):
        report_all(tmp_path)


def _merge_error(good: Path, *bad: Path) -> str:
    """The error of a merge, after which the good store is as it was."""
    before = _content(good)
    words = ["report", "--store", str(good)]
    for folder in bad:
        words += ["--merge", str(folder)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == Exit.USAGE
    assert _content(good) == before
    assert CliRunner().invoke(app, words[:3]).exit_code in (Exit.OK, Exit.FINDINGS)
    return result.stderr


def _content(folder: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(folder / FILE)) as db:
        return list(db.iterdump())


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("key_sets", "body", b"not packed"),
        ("key_sets", "body", zlib.compress(b"not JSON")),
        ("key_sets", "body", zlib.compress(b'{"kernels": {}, "made_up": []}')),
        ("key_sets", "body", zlib.compress(b'{"kernels": 5, "made_up": []}')),
        ("key_sets", "body", zlib.compress(b"x" * 500)[:-4]),
        ("key_sets", "body", "text"),
        ("key_sets", "digest", "0" * 32),
        ("kernels", "body", "{}"),
        ("kernels", "body", '{"name": 5, "package": null, "digest": "0", "origin": {}}'),
        ("kernels", "id", "0" * 32),
        ("cells", "stage", b"\xff"),
        ("records", "verdict", "compiles and more"),
        ("records", "key", "9" * 32),
        ("records", "added", "yesterday"),
        ("runs", "question", '{"about": "\\ud800"}'),
        ("runs", "question", '{"asked": 5}'),
        ("runs", "environment", '{"flacheck": "\\ud800"}'),
    ],
)
def test_a_merge_checks_each_row_of_each_table(
    table: str, column: str, value: Any, tmp_path: Path
) -> None:
    """A merge with one bad row changes nothing and names the file."""
    for name in ("mine", "theirs", "bad"):
        fill(tmp_path / name)
    write(tmp_path / "bad" / FILE, table, 1, column, value)
    message = _merge_error(tmp_path / "mine", tmp_path / "theirs", tmp_path / "bad")
    assert f"{tmp_path / 'bad' / FILE}: " in message
    assert "is damaged" in message


def test_a_set_of_keys_takes_no_more_memory_than_its_size_allows(tmp_path: Path) -> None:
    """Zeros are packed to a thousandth: 2 MB would unpack to 2 GB."""
    fill(tmp_path / "mine")
    fill(tmp_path / "bad")
    bomb = zlib.compress(b'{"kernels": {"' + b"0" * 50_000_000 + b'": ""}, "made_up": []}')
    write(tmp_path / "bad" / FILE, "key_sets", 1, "body", bomb)
    tracemalloc.start()
    try:
        message = _merge_error(tmp_path / "mine", tmp_path / "bad")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert "unpacks to more than" in message


def test_names_that_are_no_text_are_one_error(tmp_path: Path) -> None:
    """A disk may damage the schema as well."""
    file = fill(tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    whole = file.read_bytes()
    assert whole.count(b"CREATE TABLE key_sets")
    file.write_bytes(whole.replace(b"key_sets", b"key_\xff\xfe\xfd\xfc"))
    with pytest.raises(StoreError, match="damaged or not a flacheck store"):
        Store.open(tmp_path)


@pytest.mark.parametrize("table, column", [("records", "body"), ("runs", "context")])
def test_text_that_is_not_utf_8_is_one_error(table: str, column: str, tmp_path: Path) -> None:
    """SQLite keeps whatever bytes it is given as text."""
    file = fill(tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        db.execute("DROP TRIGGER records_stay")
        db.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT)", (b'{"a": "\xff"}',))
    with pytest.raises(StoreError):
        report_all(tmp_path)
