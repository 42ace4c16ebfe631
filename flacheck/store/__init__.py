"""The store: one SQLite file in one folder; records in, records out, and nothing is ever rewritten.

A record is an immutable row. A run is a set of memberships, so a record that one run compiled
belongs to every later run that found it done (`cached` there). Every `add` is on the disk when it
returns.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from msgspec import convert

from flacheck import rules
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
from flacheck.store.database import connect, explain_errors, missing
from flacheck.store.file import StoreFile

FILE = "flacheck.sqlite"
# Characters of a key that name a cell, as git's short hashes do.
PREFIX = 8


@dataclass(frozen=True)
class StoredRun:
    """One run: when and where (`environment`: flacheck, python, platform), what it asks, on behalf
    of which command. `matrix` is what it is called; `question` is None in a store of an older
    flacheck."""

    id: str
    started: str
    finished: str | None
    matrix: str | None
    environment: Mapping[str, Any]
    context: Mapping[str, Any]
    purpose: Purpose
    question: Question | None

    def to_json(self) -> Json:
        """The `run` object of flacheck.run/1."""
        where = {name: self.environment.get(name) for name in ("flacheck", "python", "platform")}
        return {"id": self.id, "started": self.started, **where, "matrix": self.matrix}


class Store(StoreFile):
    """Records and runs in `DIR/flacheck.sqlite`; an object belongs to one thread of one process."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        # Thousands of cells share a handful of kernels.
        self._kernels: dict[str, Kernel] = {}

    @staticmethod
    def open(directory: str | Path = ".flacheck", create: bool = True) -> Store:
        """The store in `directory`, made when `create`; else a missing one is a UsageError."""
        path = Path(directory) / FILE
        with explain_errors(path):
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise missing(path)
            store = Store(path, connect(path, create))
        if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
            store._take_in_side_stores()
        return store

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
        """Start a run now; its id sorts by time (`20261120-191224-3f2a1b`). `key_sets` are those
        that the question names by their digests."""
        now = datetime.now(timezone.utc)
        run = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        asked = None
        if question:
            asked = json.dumps(question.to_json())
        plain = (json.dumps(dict(environment)), json.dumps(dict(context or {})))
        row = (run, _text(now), None, matrix, *plain, purpose.value, asked)
        with self._transaction() as db:
            for asks in key_sets:
                db.execute("INSERT OR IGNORE INTO key_sets VALUES (?, ?)", _packed(asks))
            db.execute(f"INSERT INTO runs ({queries.RUN}) VALUES ({queries.marks(row)})", row)
        return run

    def settle(
        self,
        run: str,
        context: Mapping[str, Any],
        question: Question,
        key_sets: Iterable[KeySet],
    ) -> None:
        """Note what a run asks that was begun before anybody knew its cells."""
        with self._transaction() as db:
            for asks in key_sets:
                db.execute("INSERT OR IGNORE INTO key_sets VALUES (?, ?)", _packed(asks))
            sql = "UPDATE runs SET matrix = ?, context = ?, question = ? WHERE id = ?"
            asked = json.dumps(question.to_json())
            db.execute(sql, (question.about, json.dumps(dict(context)), asked, run))

    def forget(self, run: str) -> None:
        """Take back a run that stored nothing."""
        with self._transaction() as db:
            sql = "DELETE FROM runs WHERE id = ? AND id NOT IN (SELECT run FROM run_records)"
            db.execute(sql, (run,))

    def finish_run(self, run: str, results: Mapping[str, Any] | None = None) -> None:
        """Note that the run came to its end, which an interrupted one has not; `results` join its
        context."""
        context = {**self.run(run).context, **(results or {})}
        with self._transaction() as db:
            now = _text(datetime.now(timezone.utc))
            sql = "UPDATE runs SET finished = ?, context = ? WHERE id = ?"
            db.execute(sql, (now, json.dumps(context), run))

    def runs(self) -> list[StoredRun]:
        """All runs, oldest first."""
        rows = self._rows(f"SELECT {queries.RUN} FROM runs ORDER BY started, id")
        return [self._run(row) for row in rows]

    def run(self, name: str = "last") -> StoredRun:
        """The run of that id, of that unique prefix, or the `last` scan; else a UsageError with the
        candidates."""
        runs = self.runs()
        if not runs:
            raise UsageError(f"{self.path} holds no run yet: start one with `flacheck scan`")
        if name == "last":
            # What a bisection compiled on the side is no answer to "how did it go?".
            scans = [run for run in runs if run.purpose is Purpose.SCAN]
            return (scans or runs)[-1]
        named = [run for run in runs if name and run.id.startswith(name)]
        if len(named) == 1:
            return named[0]
        said = f"no run {name!r} in {self.path}"
        if named:
            said = f"several runs begin with {name!r}"
        recent = ", ".join(run.id for run in (named or runs)[-8:])
        raise UsageError(f"{said}: name one of {recent}")

    # Records in

    def add(self, run: str, record: Record) -> None:
        """Store one record of a run; on the disk when this returns."""
        self.add_many(run, [record])

    def add_many(self, run: str, records: Iterable[Record]) -> None:
        """Store records that arrived together in one transaction: all of them or none."""
        rows = []
        for record in records:
            # Whether a record is cached depends on the run that asks, so it is not stored.
            plain = {**record.to_json(), "cached": False}
            body = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
            rows.append((record.key, run, time.time(), record.verdict.value, body))
        with self._transaction() as db:
            for row in rows:
                db.execute("INSERT INTO run_records VALUES (?, ?)", (run, _insert(db, row)))

    def add_cached(self, run: str, records: Iterable[Record]) -> int:
        """Make the latest record of each one's key part of the run as well; says how many there
        were."""
        keys = (record.key for record in records)
        known = 0
        for chunk in queries.chunks(keys):
            where = f"r.key IN ({queries.marks(chunk)}) AND {queries.LATEST}"
            with self._transaction() as db:
                found = f"SELECT ?, r.id FROM records r WHERE {where}"
                sql = f"INSERT OR IGNORE INTO run_records {found}"
                known += db.execute(sql, (run, *chunk)).rowcount
        return known

    def merge(self, *others: Store, purpose: Purpose | None = None) -> list[int]:
        """Take over other stores' runs (as runs of `purpose`, when one is given) and records.

        Merging twice changes nothing. Returns how many records of each were new. Every row is
        checked before it is copied; where one is damaged, nothing of any store is taken over.
        """
        with self._transaction() as db:
            return [self._take_over(db, other, purpose) for other in others]

    def _take_over(self, db: sqlite3.Connection, other: Store, purpose: Purpose | None) -> int:
        key_sets = self._take_key_sets(db, other)
        marks = queries.marks(queries.RUN.split())
        for row in other._rows(f"SELECT {queries.RUN} FROM runs"):
            run = other._run(row)
            for asked in run.question.asked if run.question else ():
                with form.check_row(other.path, "the question of the run", run.id):
                    if asked.keys is not None and asked.keys not in key_sets:
                        raise ValueError(f"it asks for keys {asked.keys}, which are not stored")
            *kept, its_purpose, question = row
            if purpose is not None:
                its_purpose = purpose.value
            values = (*kept, its_purpose, question)
            db.execute(f"INSERT OR IGNORE INTO runs ({queries.RUN}) VALUES ({marks})", values)
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
        # One at a time, for each may be large.
        for (name,) in other._rows("SELECT digest FROM key_sets"):
            with form.check_row(other.path, "the set of keys", name):
                ((body,),) = other._rows("SELECT body FROM key_sets WHERE digest = ?", name)
                if form.key_set(body).digest != name:
                    raise ValueError("its digest is that of other keys")
            db.execute("INSERT OR IGNORE INTO key_sets VALUES (?, ?)", (name, body))
            digests.add(name)
        return digests

    def _take_records(self, db: sqlite3.Connection, other: Store) -> int:
        ids: dict[int, int] = {}
        new = 0
        same = "SELECT id FROM records WHERE key = ? AND run = ? AND added = ? AND body = ?"
        for there, *row in other._paged(
            "SELECT id, key, run, added, verdict, body FROM records WHERE id > ?"
        ):
            key, run, added, verdict, body = row
            record = other._record((body, None, None, None), cached=False)
            with form.check_row(other.path, "the record", key):
                convert(added, float)
                if (key, verdict, type(run)) != (record.key, record.verdict.value, str):
                    raise ValueError("its key, its verdict or its run is another in its columns")
            here = db.execute(same, (key, run, added, body)).fetchone()
            if here:
                (ids[there],) = here
            else:
                ids[there] = _insert(db, (key, run, added, verdict, body))
                new += 1
        for run, taken in other._rows("SELECT run, record FROM run_records"):
            with form.check_row(other.path, "a record of the run", run):
                convert(run, str)
                row = [run, ids[taken]]
            db.execute("INSERT OR IGNORE INTO run_records VALUES (?, ?)", row)
        return new

    def fallbacks(self, runs: Sequence[str]) -> list[tuple[str | None, Json]]:
        """(package, fallback) of what searches for fallbacks found for these runs, in their order;
        the last search for a run counts."""
        noted = {
            run.context["of"]: run.context["fallbacks"]
            for run in self.runs()
            if run.purpose is Purpose.FALLBACKS and "fallbacks" in run.context
        }
        return [(package, plain) for run in runs for package, plain in noted.get(run, ())]

    def _take_in_side_stores(self) -> None:
        """Take over what an older flacheck kept in stores of their own within this one's folder.

        The old file is renamed once all of it is here, and kept.
        """
        for purpose in queries.ASIDE:
            old = self.path.parent / purpose.value / FILE
            if not old.is_file():
                continue
            with Store.open(old.parent) as other:
                self.merge(other, purpose=purpose)
            with explain_errors(old):
                old.rename(old.with_name(f"{FILE}.merged"))

    # Cells

    def add_cells(self, asked: Iterable[Cell]) -> None:
        """Remember what records do not hold, so that each of these cells can be compiled again."""
        # Thousands of cells share a handful of kernels, and a kernel may hold a whole source: look
        # at each object once, and keep it, for an id is given again.
        kernels: dict[int, tuple[Kernel, str]] = {}
        with self._transaction() as db:
            for cell in asked:
                if id(cell.kernel) not in kernels:
                    body = canonical(cell.kernel.to_json())
                    kernels[id(cell.kernel)] = cell.kernel, digest(body)
                    db.execute("INSERT OR IGNORE INTO kernels VALUES (?, ?)", (digest(body), body))
                row = (cell.key, kernels[id(cell.kernel)][1], cell.stage, cell.until)
                # A key never changes its meaning.
                db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?)", row)

    # Records out

    def latest_verdicts(self, keys: Iterable[str]) -> dict[str, Verdict]:
        """The latest verdict of each key that has one: what a large scan asks, at a few bytes a
        cell."""
        rows = self._latest_of(keys, "r.key, r.verdict", "records r")
        return {key: Verdict(verdict) for key, verdict in rows}

    def latest_records(self, keys: Iterable[str]) -> dict[str, Record]:
        """The latest record of each key that has one, marked `cached`."""
        rows = self._latest_of(keys, queries.BODY, queries.JOINED)
        records = (self._record(row, cached=True) for row in rows)
        return {record.key: record for record in records}

    def records(self, run: str) -> Iterator[Record]:
        """A run's records in the order they were stored; those it did not make itself are
        `cached`."""
        sql = (
            f"SELECT r.id, r.run, {queries.BODY} FROM run_records m"
            " JOIN records r ON r.id = m.record LEFT JOIN cells c ON c.key = r.key"
            " WHERE m.record > ? AND m.run = ? ORDER BY m.record"
        )
        for _, origin, *body in self._paged(sql, run, ordered=True):
            yield self._record(body, cached=origin != run)

    def key_set(self, asked: RequestedCells) -> KeySet | None:
        """The keys that are asked; None where the capture that decides them has not ended."""
        if asked.keys is None:
            return None
        with form.check_row(self.path, "the set of keys", asked.keys):
            ((body,),) = self._rows("SELECT body FROM key_sets WHERE digest = ?", asked.keys)
            return form.key_set(body)

    def places_of(self, run: str) -> Iterator[tuple[str, str, str]]:
        """(key, toolchain, target) of each record of a run."""
        sql = (
            "SELECT r.id, r.key, json_extract(r.body, '$.toolchain'),"
            " json_extract(r.body, '$.target') FROM run_records m JOIN records r ON r.id = m.record"
            " WHERE m.record > ? AND m.run = ? ORDER BY m.record"
        )
        for _, *place in self._paged(sql, run, ordered=True):
            key, toolchain, target = place
            yield key, toolchain, target

    def current(self, keys: Iterable[str]) -> Iterator[Record]:
        """The latest record of each of these keys that any scan made or found."""
        for chunk in queries.chunks(keys):
            where = f"r.key IN ({queries.marks(chunk)}) AND {queries.LATEST_SCANNED}"
            for row in self._rows(f"{queries.RECORDS_WHERE} {where}", *chunk):
                yield self._record(row, cached=False)

    def latest(self) -> Iterator[Record]:
        """The latest record of every key that a scan, or a command like it, has asked for."""
        return (record for _, record in self.latest_with_times())

    def latest_with_times(self) -> Iterator[tuple[float, Record]]:
        """The same with the time when it was made, in seconds since 1970."""
        sql = (
            f"SELECT r.id, r.added, {queries.BODY} FROM {queries.JOINED} WHERE r.id > ?"
            f" AND {queries.LATEST_ASKED}"
        )
        for _, added, *body in self._paged(sql):
            yield added, self._record(body, cached=False)

    def keys_of(self, matrix: str) -> set[str]:
        """The keys of all cells that a run of this matrix asked for."""
        sql = (
            "SELECT DISTINCT r.key FROM runs u JOIN run_records m ON m.run = u.id"
            f" JOIN records r ON r.id = m.record WHERE u.matrix = ? AND {queries.NOT_ASIDE}"
        )
        return {key for (key,) in self._rows(sql, matrix)}

    def failed_with(self, signature: str) -> list[Record]:
        """Every record that was ever asked for, overtaken ones too, that failed with this
        signature."""
        # The hash at its end may have been computed otherwise when a record was stored.
        head = json.dumps(signature.rpartition(":")[0], ensure_ascii=False).removesuffix('"')
        sql = (
            f"{queries.RECORDS_WHERE} r.verdict = 'fails' AND instr(r.body, ?)"
            f" AND {queries.IN_A_SCAN.format(record='r')}"
        )
        rows = self._rows(sql, f'"signature":{head}')
        records = (self._record(row, cached=False) for row in rows)
        return [each for each in records if signature in (each.signature, each.formerly)]

    def find(self, prefix: str) -> list[Record]:
        """Return the latest record of every key that begins with `prefix` (at least 8 characters),
        also of keys that only `autotune` or a search for fallbacks compiled."""
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
        """A stored record with its cell, from the columns of `queries.BODY`; one whose cell is not
        stored cannot be compiled again."""
        body, kernel, stage, until = row
        with form.check_row(self.path, "the record", str(body)[:60]):
            plain = {**form.record(body), "cached": cached}
            if kernel is None or stage is None:
                return _of_today(Record.from_json(plain))
            if kernel not in self._kernels:
                ((source,),) = self._rows("SELECT body FROM kernels WHERE id = ?", kernel)
                self._kernels[kernel] = form.kernel(source)
            return _of_today(Record.from_json(plain, self._kernels[kernel], stage, until))

    def _run(self, row: tuple[Any, ...]) -> StoredRun:
        run, started, finished, matrix, environment, context, purpose, question = row
        with form.check_row(self.path, "the run", run):
            form.columns({"id": run, "started": started, "finished": finished, "matrix": matrix})
            asked = None
            if question:
                asked = form.question(question)
            where, noted = form.mapping(environment), form.context(context)
            return StoredRun(run, started, finished, matrix, where, noted, Purpose(purpose), asked)


def _of_today(record: Record) -> Record:
    """The record with its signature as this flacheck computes it."""
    if record.signature is None:
        return record
    signature = rules.computed_again(record.signature, record.message)
    if signature == record.signature:
        return record
    return record.with_(signature=signature, formerly=record.signature)


def _packed(asks: KeySet) -> tuple[str, bytes]:
    """A row of `key_sets`: thousands of keys take a third of their size."""
    return asks.digest, zlib.compress(json.dumps(asks.to_json()).encode())


def _insert(db: sqlite3.Connection, row: tuple[Any, ...]) -> int:
    sql = "INSERT INTO records (key, run, added, verdict, body) VALUES (?, ?, ?, ?, ?)"
    return db.execute(sql, row).lastrowid or 0


def _text(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")
