"""The store: one SQLite file in one folder, whose records are never rewritten.

A record is an immutable row. A run is a set of memberships, so a record that one run compiled
belongs to every later run that reuses it (`cached` there). Every `add` is on the disk when it
returns.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from msgspec import convert

from flacheck.errors import UsageError
from flacheck.model import (
    Cell,
    Json,
    Kernel,
    KeySet,
    Purpose,
    Question,
    Record,
    RequestedCells,
    Verdict,
    canonical,
    digest,
)
from flacheck.store import form, queries
from flacheck.store.database import TARGET, TOOLCHAIN, connect, explain_errors, missing
from flacheck.store.file import StoreFile

FILE = "flacheck.sqlite"
_VERDICTS = {verdict.value: verdict for verdict in Verdict}
# The records whose seconds estimate those of others.
_NEWEST_COSTS = 20_000
# Characters of a key that identify a cell, as git's short hashes do.
PREFIX = 8


@dataclass(frozen=True)
class StoredRun:
    """One run with its time, environment, question and command.

    `environment` holds flacheck, python and platform; `matrix` is the usual name of the run's
    subject; `question` is None for a run that has none.
    """

    id: str
    started: str
    finished: str | None
    matrix: str | None
    environment: Mapping[str, Any]
    context: Mapping[str, Any]
    purpose: Purpose
    question: Question | None


class Store(StoreFile):
    """Records and runs in `DIR/flacheck.sqlite`, for one thread of one process."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        # Thousands of cells share a handful of kernels.
        self._kernels: dict[str, Kernel] = {}

    @staticmethod
    def open(directory: str | Path = ".flacheck", create: bool = True) -> Store:
        """Return the store in `directory`, which is made if `create`.

        Raises UsageError for a missing store otherwise.
        """
        path = Path(directory) / FILE
        with explain_errors(path):
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise missing(path)
            return Store(path, connect(path, create))

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
        purpose: Purpose = Purpose.SCAN,
        question: Question | None = None,
        key_sets: Iterable[KeySet] = (),
    ) -> str:
        """Start a run now and return its id, which sorts by time (`20261120-191224-3f2a1b`).

        `key_sets` are those whose digests the question contains.
        """
        now = datetime.now(timezone.utc)
        run = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        question_json = None
        if question:
            question_json = json.dumps(question.to_json())
        plain = (json.dumps(dict(environment)), json.dumps(dict(context or {})))
        row = (run, _format_time(now), None, matrix, *plain, purpose.value, question_json)
        with self._transaction() as db:
            for key_set in key_sets:
                packed = (key_set.digest, form.pack_key_set(key_set))
                db.execute("INSERT OR IGNORE INTO key_sets VALUES (?, ?)", packed)
            db.execute(f"INSERT INTO runs ({queries.RUN}) VALUES ({queries.marks(row)})", row)
        return run

    def settle(
        self,
        run: str,
        context: Mapping[str, Any],
        question: Question,
        key_sets: Iterable[KeySet],
    ) -> None:
        """Store the question of a run that began before its cells were determined."""
        with self._transaction() as db:
            for key_set in key_sets:
                packed = (key_set.digest, form.pack_key_set(key_set))
                db.execute("INSERT OR IGNORE INTO key_sets VALUES (?, ?)", packed)
            sql = "UPDATE runs SET matrix = ?, context = ?, question = ? WHERE id = ?"
            question_json = json.dumps(question.to_json())
            db.execute(sql, (question.about, json.dumps(dict(context)), question_json, run))

    def forget(self, run: str) -> None:
        """Remove a run without records."""
        with self._transaction() as db:
            sql = "DELETE FROM runs WHERE id = ? AND id NOT IN (SELECT run FROM run_records)"
            db.execute(sql, (run,))

    def remove_runs(self, runs: Sequence[str], dry_run: bool = False) -> int:
        """Remove runs, their questions, and the records that no other run contains.

        Returns the number of these records.
        """
        only_here = (
            "SELECT m.record FROM run_records m WHERE m.run IN"
            " (SELECT value FROM json_each(?1)) AND NOT EXISTS (SELECT 1 FROM run_records o"
            " WHERE o.record = m.record AND o.run NOT IN (SELECT value FROM json_each(?1)))"
        )
        names = json.dumps(list(runs))
        with self._transaction() as db:
            records = {row[0] for row in db.execute(only_here, (names,))}
            if not dry_run:
                chosen = "(SELECT value FROM json_each(?))"
                db.execute(f"DELETE FROM run_records WHERE run IN {chosen}", (names,))
                db.executemany("DELETE FROM records WHERE id = ?", ((each,) for each in records))
                db.execute(f"DELETE FROM runs WHERE id IN {chosen}", (names,))
                # Shards and repeated scans share a set of keys.
                db.execute(
                    "DELETE FROM key_sets WHERE digest NOT IN (SELECT json_extract(a.value,"
                    " '$.keys') FROM runs r, json_each(r.question, '$.asked') a"
                    " WHERE json_extract(a.value, '$.keys') IS NOT NULL)"
                )
        return len(records)

    def record_counts(self) -> dict[str, int]:
        """Return the number of records of each run that has any."""
        return dict(self._rows("SELECT run, count(*) FROM run_records GROUP BY run"))

    def finish_run(self, run: str, results: Mapping[str, Any] | None = None) -> None:
        """Mark a run as finished and add `results` to its context.

        An interrupted run lacks this mark.
        """
        context = {**self.run(run).context, **(results or {})}
        with self._transaction() as db:
            now = _format_time(datetime.now(timezone.utc))
            sql = "UPDATE runs SET finished = ?, context = ? WHERE id = ?"
            db.execute(sql, (now, json.dumps(context), run))

    def runs(self) -> list[StoredRun]:
        """Return all runs, oldest first."""
        rows = self._rows(f"SELECT {queries.RUN} FROM runs ORDER BY started, id")
        return [self._run(row) for row in rows]

    def run(self, name: str = "last") -> StoredRun:
        """Return the run of that id, of that unique prefix, or the `last` scan.

        Raises UsageError with the candidates if none or several match.
        """
        runs = self.runs()
        if not runs:
            raise UsageError(f"{self.path} contains no runs yet: start one with `flacheck scan`")
        if name == "last":
            # The last run may be a bisection, whose records are not those of a scan.
            scans = [run for run in runs if run.purpose is Purpose.SCAN]
            return (scans or runs)[-1]
        matching = [run for run in runs if name and run.id.startswith(name)]
        if len(matching) == 1:
            return matching[0]
        problem = f"no run {name!r} in {self.path}"
        if matching:
            problem = f"several runs begin with {name!r}"
        recent = ", ".join(run.id for run in (matching or runs)[-8:])
        raise UsageError(f"{problem}: name one of {recent}")

    # Records in

    def add(self, run: str, record: Record) -> None:
        """Store one record of a run, on the disk when this returns."""
        self.add_many(run, [record])

    def add_many(self, run: str, records: Iterable[Record]) -> None:
        """Store records in one transaction: all of them or none."""
        rows = []
        for record in records:
            # The mark `cached` depends on the run, so it is not stored.
            plain = {**record.to_json(), "cached": False}
            body = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
            rows.append((record.key, run, time.time(), record.verdict.value, body))
        with self._transaction() as db:
            for row in rows:
                db.execute("INSERT INTO run_records VALUES (?, ?)", (run, _insert(db, row)))

    def add_cached(self, run: str, records: Iterable[Record]) -> int:
        """Add the latest record of each key to the run and return their number."""
        keys = (record.key for record in records)
        count = 0
        for chunk in queries.chunks(keys):
            where = f"r.key IN ({queries.marks(chunk)}) AND {queries.LATEST}"
            with self._transaction() as db:
                select = f"SELECT ?, r.id FROM records r WHERE {where}"
                sql = f"INSERT OR IGNORE INTO run_records {select}"
                count += db.execute(sql, (run, *chunk)).rowcount
        return count

    def merge(self, *others: Store) -> list[int]:
        """Copy runs and records of other stores and return the number of new records of each.

        Merging twice changes nothing. Every row is checked before it is copied; if one is damaged,
        no store is copied.
        """
        with self._transaction() as db:
            return [self._take_over(db, other) for other in others]

    def _take_over(self, db: sqlite3.Connection, other: Store) -> int:
        key_sets = self._take_key_sets(db, other)
        marks = queries.marks(queries.RUN.split())
        for row in other._rows(f"SELECT {queries.RUN} FROM runs"):
            run = other._run(row)
            for request in run.question.asked if run.question else ():
                with form.check_row(other.path, "the question of the run", run.id):
                    if request.keys is not None and request.keys not in key_sets:
                        raise ValueError(f"its keys {request.keys} are not stored")
            db.execute(f"INSERT OR IGNORE INTO runs ({queries.RUN}) VALUES ({marks})", row)
        for name, body in other._rows("SELECT id, body FROM kernels"):
            with form.check_row(other.path, "the kernel", name):
                form.kernel(body)
                form.check_digest(name, body)
            db.execute("INSERT OR IGNORE INTO kernels VALUES (?, ?)", (name, body))
        for cell in other._rows("SELECT key, kernel, stage, until FROM cells"):
            with form.check_row(other.path, "the cell", cell[0]):
                convert(cell, tuple[str, str, str, str | None])
            db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?)", cell)
        return self._take_records(db, other)

    def _take_key_sets(self, db: sqlite3.Connection, other: Store) -> set[str]:
        digests = set()
        # One at a time, since each may be large.
        for (name,) in other._rows("SELECT digest FROM key_sets"):
            with form.check_row(other.path, "the set of keys", name):
                ((body,),) = other._rows("SELECT body FROM key_sets WHERE digest = ?", name)
                if form.key_set(body).digest != name:
                    raise ValueError("its digest does not match its keys")
            db.execute("INSERT OR IGNORE INTO key_sets VALUES (?, ?)", (name, body))
            digests.add(name)
        return digests

    def _take_records(self, db: sqlite3.Connection, other: Store) -> int:
        ids: dict[int, int] = {}
        new = 0
        same = "SELECT id FROM records WHERE key = ? AND run = ? AND added = ? AND body = ?"
        for there, *row in other._read_pages(
            "SELECT id, key, run, added, verdict, body FROM records WHERE id > ?"
        ):
            key, run, added, verdict, body = row
            record = other._record((body, None, None, None), cached=False)
            with form.check_row(other.path, "the record", key):
                convert(added, float)
                if (key, verdict, type(run)) != (record.key, record.verdict.value, str):
                    raise ValueError("its key, verdict or run differs from its columns")
            here = db.execute(same, (key, run, added, body)).fetchone()
            if here:
                (ids[there],) = here
            else:
                ids[there] = _insert(db, (key, run, added, verdict, body))
                new += 1
        for run, record_id in other._rows("SELECT run, record FROM run_records"):
            with form.check_row(other.path, "a record of the run", run):
                convert(run, str)
                row = [run, ids[record_id]]
            db.execute("INSERT OR IGNORE INTO run_records VALUES (?, ?)", row)
        return new

    def fallbacks(self, runs: Sequence[str]) -> list[tuple[str | None, Json]]:
        """Return (package, fallback) from searches for these runs, in their order.

        Only the last search for a run counts.
        """
        found_for: dict[str, list[tuple[str | None, Json]]] = {}
        for run in self.runs():
            if run.purpose is Purpose.FALLBACKS and "fallbacks" in run.context:
                found_for[run.context["of"]] = run.context["fallbacks"]
        fallbacks = []
        for name in runs:
            fallbacks += [(package, plain) for package, plain in found_for.get(name, ())]
        return fallbacks

    # Cells

    def add_cells(self, cells: Iterable[Cell]) -> None:
        """Store the fields that records do not hold, so that these cells can be compiled again."""
        # Thousands of cells share a handful of kernels, and a kernel may hold a whole source. Each
        # object is serialised once and kept, since Python reuses the ids of freed objects.
        kernels: dict[int, tuple[Kernel, str]] = {}
        with self._transaction() as db:
            for cell in cells:
                if id(cell.kernel) not in kernels:
                    body = canonical(cell.kernel.to_json())
                    kernels[id(cell.kernel)] = cell.kernel, digest(body)
                    db.execute("INSERT OR IGNORE INTO kernels VALUES (?, ?)", (digest(body), body))
                row = (cell.key, kernels[id(cell.kernel)][1], cell.stage, cell.until)
                # A key never changes its meaning.
                db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?)", row)

    # Records out

    def latest_verdicts(self, keys: Iterable[str]) -> dict[str, Verdict]:
        """Return the latest verdict of each key that has one, at a few bytes a cell."""
        verdicts: dict[str, Verdict] = {}
        for chunk in queries.chunks(keys):
            marks = queries.marks(chunk)
            rows = self._rows(
                f"SELECT key, verdict FROM records WHERE key IN ({marks}) ORDER BY key, added, id",
                *chunk,
            )
            # The last row of a key is its latest.
            for key, verdict in rows:
                verdicts[key] = _VERDICTS[verdict]
        return verdicts

    def latest_records(self, keys: Iterable[str]) -> dict[str, Record]:
        """Return the latest record of each key that has one, marked `cached`."""
        rows = self._latest_of(keys, queries.BODY, queries.RECORDS_WITH_CELLS)
        records = (self._record(row, cached=True) for row in rows)
        return {record.key: record for record in records}

    def records(self, run: str) -> Iterator[Record]:
        """Yield a run's records in the order in which they were stored.

        Records of other runs are `cached`.
        """
        sql = (
            f"SELECT r.id, r.run, {queries.BODY} FROM run_records m"
            " JOIN records r ON r.id = m.record LEFT JOIN cells c ON c.key = r.key"
            " WHERE m.record > ? AND m.run = ? ORDER BY m.record"
        )
        for _, origin, *body in self._read_pages(sql, run, has_order=True):
            yield self._record(body, cached=origin != run)

    def key_set(self, request: RequestedCells) -> KeySet | None:
        """Return a key set, or None if the capture that decides it has not ended."""
        if request.keys is None:
            return None
        with form.check_row(self.path, "the set of keys", request.keys):
            ((body,),) = self._rows("SELECT body FROM key_sets WHERE digest = ?", request.keys)
            return form.key_set(body)

    def current(self, keys: Iterable[str]) -> Iterator[Record]:
        """Yield the latest record of each of these keys that any scan made or reused."""
        for chunk in queries.chunks(keys):
            where = f"r.key IN ({queries.marks(chunk)}) AND {queries.LATEST_OF_SCANS}"
            for row in self._rows(f"{queries.RECORDS_WHERE} {where}", *chunk):
                yield self._record(row, cached=False)

    def keys_on(self, toolchain: str, target: str) -> dict[str, str]:
        """Return the kernel's name of each key with a record on a toolchain and target."""
        sql = (
            f"SELECT key, json_extract(body, '$.kernel') FROM records WHERE {TOOLCHAIN} = ?"
            f" AND {TARGET} = ?"
        )
        return dict(self._rows(sql, toolchain, target))

    def recent_costs(self) -> list[tuple[Any, ...]]:
        """Return what the newest records cost.

        Each row has kernel, package, GPU, dtype, launch, options, seconds and verdict. Only
        compiles that reached a verdict took their full time. Damaged records are left out, because
        an estimate does not need them.
        """
        names = ("kernel", "package", "target", "dtype", "launch", "options", "seconds")
        columns = ", ".join(f"json_extract(body, '$.{name}')" for name in names)
        rows = self._rows(
            f"SELECT {columns}, verdict FROM records WHERE id > (SELECT max(id) FROM records) - ?"
            " AND verdict IN ('compiles', 'fails') AND json_valid(body)"
            " AND json_type(body, '$.kernel') = 'text' AND json_type(body, '$.options') = 'object'"
            " AND coalesce(json_type(body, '$.launch'), 'null') IN ('object', 'null')"
            " AND json_type(body, '$.seconds') IN ('integer', 'real')",
            _NEWEST_COSTS,
        )
        costs = []
        for *parts, launch, options, seconds, verdict in rows:
            plain = (json.loads(launch or "null"), json.loads(options), seconds)
            costs.append((*parts, *plain, verdict))
        return costs

    def keys_of_scans(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys that have a record of a scan."""
        scanned: set[str] = set()
        for chunk in queries.chunks(keys):
            where = f"r.key IN ({queries.marks(chunk)}) AND {queries.OF_A_SCAN}"
            rows = self._rows(f"SELECT r.key FROM records r WHERE {where}", *chunk)
            scanned.update(key for (key,) in rows)
        return scanned

    def latest(self) -> Iterator[Record]:
        """Yield the latest record of every key of a scan or a similar command."""
        for _, record in self.latest_with_times():
            yield record

    def latest_with_times(self) -> Iterator[tuple[float, Record]]:
        """Yield the latest records with their times in seconds since 1970."""
        sql = (
            f"SELECT r.id, r.added, {queries.BODY} FROM {queries.RECORDS_WITH_CELLS} WHERE r.id > ?"
            f" AND {queries.LATEST_IN_SCANS}"
        )
        for _, added_at, *body in self._read_pages(sql):
            yield added_at, self._record(body, cached=False)

    def failed_with(self, signature: str) -> list[Record]:
        """Return every record that failed with this signature, superseded ones too."""
        sql = (
            f"{queries.RECORDS_WHERE} r.verdict = 'fails' AND instr(r.body, ?)"
            f" AND {queries.IN_A_SCAN.format(record='r')}"
        )
        rows = self._rows(sql, f'"signature":{json.dumps(signature, ensure_ascii=False)}')
        return [self._record(row, cached=False) for row in rows]

    def find(self, prefix: str) -> list[Record]:
        """Return the latest record of every key that begins with `prefix`.

        The prefix has at least 8 characters. Keys that only `autotune` or a search for fallbacks
        compiled are included.
        """
        if len(prefix) < PREFIX:
            raise UsageError(
                f"{prefix!r} is too short for a cell: give at least {PREFIX} characters of its key"
            )
        where = f"r.key >= ? AND r.key < ? AND {queries.LATEST} ORDER BY r.key"
        sql = f"{queries.RECORDS_WHERE} {where}"
        rows = self._rows(sql, prefix, prefix + "\U0010ffff")
        return [self._record(row, cached=False) for row in rows]

    # SQL

    def _latest_of(
        self, keys: Iterable[str], columns: str, tables: str
    ) -> Iterator[tuple[Any, ...]]:
        for chunk in queries.chunks(keys):
            where = f"r.key IN ({queries.marks(chunk)}) AND {queries.LATEST}"
            yield from self._rows(f"SELECT {columns} FROM {tables} WHERE {where}", *chunk)

    def _record(self, row: Sequence[Any], cached: bool) -> Record:
        """Return a stored record with its cell, from the columns of `queries.BODY`.

        A record whose cell is not stored cannot be compiled again.
        """
        body, kernel, stage, until = row
        with form.check_row(self.path, "the record", str(body)[:60]):
            plain = {**form.record(body), "cached": cached}
            if kernel is None or stage is None:
                return Record.from_json(plain)
            if kernel not in self._kernels:
                ((source,),) = self._rows("SELECT body FROM kernels WHERE id = ?", kernel)
                self._kernels[kernel] = form.kernel(source)
            return Record.from_json(plain, self._kernels[kernel], stage, until)

    def _run(self, row: tuple[Any, ...]) -> StoredRun:
        run, started, finished, matrix, environment, context, purpose, question = row
        with form.check_row(self.path, "the run", run):
            form.columns({"id": run, "started": started, "finished": finished, "matrix": matrix})
            stored_question = None
            if question:
                stored_question = form.question(question)
            where, run_context = form.mapping(environment), form.context(context)
            return StoredRun(
                run,
                started,
                finished,
                matrix,
                where,
                run_context,
                Purpose(purpose),
                stored_question,
            )


def _insert(db: sqlite3.Connection, row: tuple[Any, ...]) -> int:
    sql = "INSERT INTO records (key, run, added, verdict, body) VALUES (?, ?, ?, ?, ?)"
    return db.execute(sql, row).lastrowid or 0


def _format_time(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")
