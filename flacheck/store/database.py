"""Opening the store's SQLite file, and saying what to do when that or anything later fails."""

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flacheck.errors import StoreError, UsageError

SCHEMA = 4
# A writer holds the file for milliseconds; one that holds it for a minute hangs.
BUSY_SECONDS = 60.0

TABLES = (
    "CREATE TABLE runs (id TEXT PRIMARY KEY, started TEXT NOT NULL, finished TEXT, matrix TEXT,"
    " environment TEXT NOT NULL, context TEXT NOT NULL)",
    "CREATE TABLE records (id INTEGER PRIMARY KEY, key TEXT NOT NULL, run TEXT NOT NULL,"
    " added REAL NOT NULL, verdict TEXT NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX records_by_key ON records (key, added, id)",
    "CREATE TRIGGER records_stay BEFORE UPDATE ON records"
    " BEGIN SELECT RAISE(ABORT, 'records are immutable'); END",
    "CREATE TABLE run_records (run TEXT NOT NULL, record INTEGER NOT NULL,"
    " PRIMARY KEY (run, record)) WITHOUT ROWID",
)

# What schema 2 added: from which kernel, up to which stage, a cell is compiled. A record says the
# rest.
CELL_TABLES = (
    "CREATE TABLE kernels (id TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE cells (key TEXT PRIMARY KEY, kernel TEXT NOT NULL, stage TEXT NOT NULL,"
    " until TEXT) WITHOUT ROWID",
)

# What schema 3 added: for which command a run was made, and what it asks. Which runs a record
# belongs to is looked up by record as well.
RUN_COLUMNS = (
    "ALTER TABLE runs ADD COLUMN purpose TEXT NOT NULL DEFAULT 'scan'",
    "ALTER TABLE runs ADD COLUMN question TEXT",
    "UPDATE runs SET purpose = json_extract(context, '$.purpose')"
    " WHERE json_extract(context, '$.purpose') IS NOT NULL",
    "CREATE INDEX run_records_by_record ON run_records (record, run)",
)
# What schema 4 added: the keys that a question asks of a toolchain on a target. Shards, and a scan
# that is given again, share one row.
KEY_SETS = ("CREATE TABLE key_sets (digest TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",)
MIGRATIONS = (TABLES, CELL_TABLES, RUN_COLUMNS, KEY_SETS)

# An older file that cannot be written is read as if it had been migrated.
_READ_AS_NEW = (
    "CREATE TEMP VIEW runs AS SELECT id, started, finished, matrix, environment, context,"
    " coalesce(json_extract(context, '$.purpose'), 'scan') AS purpose, NULL AS question"
    " FROM main.runs"
)

_FULL = (
    "no space left to write it; free some and give the same command again: every record stored so"
    " far is kept"
)
_SHUT = (
    "it cannot be opened; check the permissions of the file and its folder, or name another with"
    " --store"
)
_NO_STORE = "it is damaged, or no flacheck store; move it away, or name another folder with --store"
_FAILED = (
    "it could not be written or read: no space left, a limit on file sizes, or a failing disk;"
    " every record stored so far is kept"
)
_BUSY = (
    f"another process has been writing to it for over {BUSY_SECONDS:.0f} s; end that one or try"
    " again later"
)
# What SQLite says (in lower case) → what the user should know and do.
_ADVICE = {
    "is full": _FULL,
    "i/o error": _FAILED,
    "not a database": _NO_STORE,
    "malformed": _NO_STORE,
    "utf-8": _NO_STORE,
    "no such table": _NO_STORE,
    "no such column": _NO_STORE,
    "readonly": _SHUT,
    "unable to open": _SHUT,
    "access permission": _SHUT,
    "locked": _BUSY,
    "busy": _BUSY,
}


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn whatever SQLite or the system raises about the store into one StoreError that says what
    to do."""
    try:
        yield
    # Text that is not UTF-8 is refused by Python where it is a name in the schema.
    except (sqlite3.Error, OSError, UnicodeError) as error:
        raise StoreError(f"{path}: {_advice(error)} ({error})") from error


def connect(path: Path, create: bool) -> sqlite3.Connection:
    """The store's file, opened and checked; with `create` made where it is missing."""
    connection, writable = _open(path, create)
    try:
        _prepare(connection, path, create, writable)
    except BaseException:
        connection.close()
        raise
    return connection


def missing(path: Path) -> UsageError:
    """What a reader is told when nothing was ever stored there."""
    return UsageError(
        f"no store at {path}: run `flacheck scan` first, or name another folder with --store"
    )


def _advice(error: Exception) -> str:
    if isinstance(error, OSError):
        return {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL}.get(error.errno or 0, _SHUT)
    said = str(error).lower()
    fitting = (advice for words, advice in _ADVICE.items() if words in said)
    return next(fitting, "SQLite refuses it")


def _open(path: Path, create: bool) -> tuple[sqlite3.Connection, bool]:
    """The connection, and whether it can write."""
    writable = create or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    if create:
        mode = "?mode=rwc"
    elif writable:
        mode = "?mode=rw"
    elif path.with_name(path.name + "-wal").exists():
        mode = "?mode=ro"
    else:
        # A reader of a WAL file writes beside it, unless told that nobody else does.
        mode = "?mode=ro&immutable=1"
    uri = path.absolute().as_uri() + mode
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    return connection, writable


def _prepare(connection: sqlite3.Connection, path: Path, create: bool, writable: bool) -> None:
    schema = _schema(connection, path)
    if not schema:
        if not create:
            raise missing(path)
        _write_ahead(connection)
    if schema < SCHEMA and writable:
        _migrate(connection)
    elif schema < SCHEMA:
        # For this connection alone the file has what it lacks.
        lacking: tuple[str, ...] = KEY_SETS
        if schema < 2:
            lacking = (*CELL_TABLES, *KEY_SETS)
        for statement in lacking:
            connection.execute(statement.replace("CREATE TABLE", "CREATE TEMP TABLE"))
        if schema < 3:
            connection.execute(_READ_AS_NEW)
    connection.execute("PRAGMA synchronous = FULL")


def _schema(connection: sqlite3.Connection, path: Path) -> int:
    """The file's schema, 0 for a new one; one of another kind or of a later time is refused
    untouched."""
    # One snapshot for both questions: another scan may be making the tables right now.
    connection.execute("BEGIN")
    try:
        schema = _version(connection)
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {name for (name,) in rows}
    finally:
        connection.execute("ROLLBACK")
    if schema > SCHEMA:
        raise StoreError(
            f"{path} was written by a newer flacheck (schema {schema}, this one knows {SCHEMA}):"
            " upgrade flacheck, or name another folder with --store"
        )
    if (tables or schema) and not (schema and tables >= {"runs", "records", "run_records"}):
        raise StoreError(f"{path} is no flacheck store: name another folder with --store")
    return schema


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring a new or older file to this schema, all steps or none. An older one that cannot be
    written stays as it is, and readable."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited.
        for step in MIGRATIONS[_version(connection) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to WAL, for which SQLite does not always wait although told to."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.02)
