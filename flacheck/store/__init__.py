"""The store: one SQLite file in one folder; records in, records out, and nothing is ever rewritten.

A record is an immutable row. A run is a set of memberships, so a record that one run compiled
belongs to every later run that found it done (`cached` there). Every `add` is on the disk when it
returns.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any

from flacheck.errors import UsageError
from flacheck.model import Cell, Json, Record, Verdict
from flacheck.store import cells as stored_cells
from flacheck.store.database import connect, explained, missing

DEFAULT_DIRECTORY = Path(".flacheck")
FILE = "flacheck.sqlite"
CHUNK = 500
PREFIX = 8
# In the context of a run that another command than scan made.
PURPOSE = "purpose"

LATEST = (
    "NOT EXISTS (SELECT 1 FROM records n WHERE n.key = r.key AND (n.added, n.id) > (r.added, r.id))"
)


@dataclass(frozen=True)
class Run:
    """One scan: when, where (`environment`: flacheck, python, platform), of which matrix, with what
    `context`.
    """

    id: str
    started: str
    finished: str | None
    matrix: str | None
    environment: Mapping[str, Any]
    context: Mapping[str, Any]

    def to_json(self) -> Json:
        """The contract's `run` object."""
        place = {name: self.environment.get(name) for name in ("flacheck", "python", "platform")}
        return {"id": self.id, "started": self.started, **place, "matrix": self.matrix}


class Store:
    """Records and runs in `DIR/flacheck.sqlite`; one object belongs to one thread of one process."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection

    @staticmethod
    def open(directory: str | Path = DEFAULT_DIRECTORY, create: bool = True) -> Store:
        """The store in `directory`, made when `create`; a missing one is a UsageError for a reader."""
        path = Path(directory) / FILE
        with explained(path):
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise missing(path)
            return Store(path, connect(path, create))

    def close(self) -> None:
        with explained(self.path):
            self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Runs

    def begin_run(
        self,
        environment: Mapping[str, Any],
        matrix: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> str:
        """Start a run now; its id sorts by time (`20261120-191224-3f2a1b`)."""
        now = datetime.now(timezone.utc)
        run = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        row = (run, now.isoformat(timespec="microseconds"), matrix, json.dumps(dict(environment)))
        with self._transaction() as db:
            db.execute(
                "INSERT INTO runs (id, started, matrix, environment, context) VALUES (?, ?, ?, ?, ?)",
                (*row, json.dumps(dict(context or {}))),
            )
        return run

    def finish_run(self, run: str) -> None:
        """Note that the run came to its end; an interrupted one has none."""
        with self._transaction() as db:
            db.execute("UPDATE runs SET finished = ? WHERE id = ?", (_now(), run))

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        return [_run(row) for row in self._rows("SELECT * FROM runs ORDER BY started, rowid")]

    def run(self, name: str = "last") -> Run:
        """The run of that id, of that unique prefix, or the `last` scan; else a UsageError with the
        candidates.
        """
        runs = self.runs()
        if not runs:
            raise UsageError(f"{self.path} holds no run yet: start one with `flacheck scan`")
        found = (
            _last(runs)
            if name == "last"
            else [run for run in runs if name and run.id.startswith(name)]
        )
        if len(found) != 1:
            said = (
                f"several runs begin with {name!r}" if found else f"no run {name!r} in {self.path}"
            )
            raise UsageError(
                f"{said}: name one of {', '.join(run.id for run in (found or runs)[-8:])}"
            )
        return found[0]

    # Records in

    def add(self, run: str, record: Record) -> None:
        """Store one record of a run; on the disk when this returns."""
        self.add_many(run, [record])

    def add_many(self, run: str, records: Iterable[Record]) -> None:
        """Store records that arrived together in one transaction: all of them or none."""
        rows = [
            (record.key, run, time.time(), record.verdict.value, _body(record))
            for record in records
        ]
        with self._transaction() as db:
            for row in rows:
                db.execute("INSERT INTO run_records VALUES (?, ?)", (run, _insert(db, row)))

    def add_cached(self, run: str, cells: Iterable[str | Record]) -> int:
        """Make the latest record of each key (or record) part of the run as well; says how many
        there were.
        """
        keys = (cell if isinstance(cell, str) else cell.key for cell in cells)
        known = 0
        for chunk in _chunks(keys):
            where = f"r.key IN ({_marks(chunk)}) AND {LATEST}"
            with self._transaction() as db:
                sql = (
                    f"INSERT OR IGNORE INTO run_records SELECT ?, r.id FROM records r WHERE {where}"
                )
                known += db.execute(sql, (run, *chunk)).rowcount
        return known

    def merge(self, other: Store) -> int:
        """Take over the other store's runs and records; merging twice changes nothing. Says how
        many were new.
        """
        with self._transaction() as db:
            for run in other._rows("SELECT * FROM runs ORDER BY started, rowid"):
                db.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?)", run)
            stored_cells.adopt(db, other._db)
            rows = dict(
                _adopt(db, row) for row in other._paged("SELECT * FROM records WHERE id > ?")
            )
            for run, record in other._rows("SELECT run, record FROM run_records"):
                db.execute(
                    "INSERT OR IGNORE INTO run_records VALUES (?, ?)", (run, rows[record][0])
                )
        return sum(new for _, new in rows.values())

    # Cells

    def add_cells(self, cells: Iterable[Cell]) -> None:
        """Remember what records do not hold, so that each of these cells can be compiled again."""
        with self._transaction() as db:
            stored_cells.insert(db, cells)

    def cell(self, record: Record) -> Cell | None:
        """The cell that a record is about; None for one of a flacheck that did not keep cells yet."""
        with explained(self.path):
            return stored_cells.find(self._db, record)

    # Records out

    def known(self, keys: Iterable[str]) -> dict[str, Verdict]:
        """The latest verdict of each key that has one: what a large scan asks, at a few bytes a
        cell.
        """
        return {key: Verdict(verdict) for key, verdict, _ in self._latest_of(keys, "NULL")}

    def done(self, keys: Iterable[str]) -> dict[str, Record]:
        """The latest record of each key that has one, marked `cached`."""
        return {key: _record(body, True) for key, _, body in self._latest_of(keys, "r.body")}

    def records(self, run: str) -> Iterator[Record]:
        """A run's records in the order they were stored; those it did not make itself are `cached`."""
        sql = (
            "SELECT r.id, r.run, r.body FROM run_records m JOIN records r ON r.id = m.record"
            " WHERE m.record > ? AND m.run = ? ORDER BY m.record"
        )
        for _, origin, body in self._paged(sql, run, ordered=True):
            yield _record(body, origin != run)

    def latest(self) -> Iterator[Record]:
        """The latest record of every key in the store."""
        for _, body in self._paged(
            f"SELECT r.id, r.body FROM records r WHERE r.id > ? AND {LATEST}"
        ):
            yield _record(body, False)

    def dated(self) -> Iterator[tuple[float, Record]]:
        """The latest record of every key with the time when it was made, in seconds since 1970."""
        for _, added, body in self._paged(
            f"SELECT r.id, r.added, r.body FROM records r WHERE r.id > ? AND {LATEST}"
        ):
            yield added, _record(body, False)

    def keys_of(self, matrix: str) -> set[str]:
        """The keys of all cells that a run of this matrix asked for."""
        sql = (
            "SELECT DISTINCT r.key FROM runs u JOIN run_records m ON m.run = u.id"
            " JOIN records r ON r.id = m.record WHERE u.matrix = ?"
        )
        return {key for (key,) in self._rows(sql, matrix)}

    def failed_with(self, signature: str) -> list[Record]:
        """Every record ever stored, overtaken ones too, that failed with this signature."""
        said = '"signature":' + json.dumps(signature, ensure_ascii=False)
        rows = self._rows(
            "SELECT body FROM records WHERE verdict = 'fails' AND instr(body, ?)", said
        )
        return [_record(body, False) for (body,) in rows]

    def find(self, prefix: str) -> list[Record]:
        """The latest record of every key that begins with `prefix` (at least 8 characters)."""
        if len(prefix) < PREFIX:
            raise UsageError(
                f"{prefix!r} is too short for a cell: give at least {PREFIX} characters of its key"
            )
        sql = f"SELECT r.body FROM records r WHERE r.key >= ? AND r.key < ? AND {LATEST} ORDER BY r.key"
        return [_record(body, False) for (body,) in self._rows(sql, prefix, prefix + "\U0010ffff")]

    # SQL

    def _latest_of(self, keys: Iterable[str], body: str) -> Iterator[tuple[Any, ...]]:
        for chunk in _chunks(keys):
            where = f"r.key IN ({_marks(chunk)}) AND {LATEST}"
            yield from self._rows(
                f"SELECT r.key, r.verdict, {body} FROM records r WHERE {where}", *chunk
            )

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with explained(self.path):
            return self._db.execute(sql, values).fetchall()

    def _paged(self, sql: str, *values: Any, ordered: bool = False) -> Iterator[tuple[Any, ...]]:
        """Rows by id, a page at a time: a slow reader neither fills memory nor holds up a
        checkpoint.
        """
        sql += " LIMIT ?" if ordered else " ORDER BY id LIMIT ?"
        last = 0
        while rows := self._rows(sql, last, *values, CHUNK):
            yield from rows
            last = rows[-1][0]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with explained(self.path):
            # IMMEDIATE: a second writer waits here, where waiting is allowed, not in the middle.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")


def _last(runs: list[Run]) -> list[Run]:
    """The newest scan: what a bisection compiled on the side is no answer to "how did it go?"."""
    return ([run for run in runs if PURPOSE not in run.context] or runs)[-1:]


def _insert(db: sqlite3.Connection, row: tuple[Any, ...]) -> int:
    sql = "INSERT INTO records (key, run, added, verdict, body) VALUES (?, ?, ?, ?, ?)"
    return db.execute(sql, row).lastrowid or 0


def _adopt(db: sqlite3.Connection, row: tuple[Any, ...]) -> tuple[int, tuple[int, bool]]:
    """Another store's row, put here unless it is here: (its id there, (its id here, whether it is
    new)).
    """
    there, key, run, added, verdict, body = row
    same = "SELECT id FROM records WHERE key = ? AND added = ? AND run = ? AND body = ?"
    found = db.execute(same, (key, added, run, body)).fetchone()
    if found:
        return there, (found[0], False)
    return there, (_insert(db, (key, run, added, verdict, body)), True)


def _body(record: Record) -> str:
    # Whether a record is cached depends on the run that asks, so it is not stored.
    return json.dumps(
        {**record.to_json(), "cached": False}, ensure_ascii=False, separators=(",", ":")
    )


def _record(body: str, cached: bool) -> Record:
    return Record.from_json({**json.loads(body), "cached": cached})


def _run(row: tuple[Any, ...]) -> Run:
    identity, started, finished, matrix, environment, context = row
    return Run(identity, started, finished, matrix, json.loads(environment), json.loads(context))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def _chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(dict.fromkeys(keys))
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _marks(values: list[str]) -> str:
    return ", ".join("?" * len(values))
