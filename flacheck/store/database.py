"""Opening of the store's SQLite file, and messages with remedies for its errors."""

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from flacheck.errors import StoreError, UsageError

# The number of the tables' form, in the file's `user_version`.
FORM = 4
# A writer holds the file for milliseconds; after a minute it is considered hung.
BUSY_SECONDS = 60.0

# Columns of an index by place. A damaged body is left out here; its reader names it.
TOOLCHAIN, TARGET = (
    f"CASE WHEN json_valid(body) THEN json_extract(body, '$.{name}') END"
    for name in ("toolchain", "target")
)
TABLES = (
    "CREATE TABLE runs (id TEXT PRIMARY KEY, started TEXT NOT NULL, finished TEXT, matrix TEXT,"
    " environment TEXT NOT NULL, context TEXT NOT NULL, purpose TEXT NOT NULL, question TEXT)",
    "CREATE TABLE records (id INTEGER PRIMARY KEY, key TEXT NOT NULL, run TEXT NOT NULL,"
    " added REAL NOT NULL, verdict TEXT NOT NULL, body TEXT NOT NULL)",
    "CREATE TRIGGER records_stay BEFORE UPDATE ON records"
    " BEGIN SELECT RAISE(ABORT, 'records are immutable'); END",
    "CREATE TABLE run_records (run TEXT NOT NULL, record INTEGER NOT NULL,"
    " PRIMARY KEY (run, record)) WITHOUT ROWID",
    # The kernel and the last stage of a cell; a record holds the rest.
    "CREATE TABLE kernels (id TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE cells (key TEXT PRIMARY KEY, kernel TEXT NOT NULL, stage TEXT NOT NULL,"
    " until TEXT) WITHOUT ROWID",
    # The keys of a question on a toolchain and target. Shards, and repeated scans, share one row.
    "CREATE TABLE key_sets (digest TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE INDEX run_records_by_record ON run_records (record, run)",
    # Without this index, stores of a million records are slow.
    "CREATE INDEX records_latest ON records (key, added, id, verdict)",
    f"CREATE INDEX records_by_place ON records ({TOOLCHAIN}, {TARGET})",
)

_FULL = (
    "no space left to write it; free some and give the same command again: every record stored so"
    " far is kept"
)
_SHUT = (
    "it cannot be opened; check the permissions of the file and its folder, or name another with"
    " --store"
)
_NO_STORE = (
    "it is damaged or not a flacheck store; move it away, or name another folder with --store"
)
_IO_ERROR = (
    "it could not be written or read: no space left, a limit on file sizes, or a failing disk;"
    " every record stored so far is kept"
)
_BUSY = (
    f"another process has been writing to it for over {BUSY_SECONDS:.0f} s; end that one or try"
    " again later"
)
# Words in SQLite's messages (in lower case) → cause and remedy for the user.
_ADVICE = {
    "is full": _FULL,
    "i/o error": _IO_ERROR,
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
    """Turn errors of SQLite and the system about the store into a StoreError with a remedy."""
    try:
        yield
    # Python raises UnicodeError if a name in the schema is not UTF-8.
    except (sqlite3.Error, OSError, UnicodeError) as error:
        raise StoreError(f"{path}: {_find_advice(error)} ({error})") from error


def connect(path: Path, create: bool) -> sqlite3.Connection:
    """Return the open, checked file of the store; `create` makes a missing one."""
    connection = _open(path, create)
    with ExitStack() as stack:
        stack.callback(connection.close)
        _prepare(connection, path, create)
        stack.pop_all()
    return connection


def missing(path: Path) -> UsageError:
    """Return the error for a folder in which nothing was stored."""
    return UsageError(
        f"no store at {path}: run `flacheck scan` first, or name another folder with --store"
    )


def _find_advice(error: Exception) -> str:
    if isinstance(error, OSError):
        return {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL}.get(error.errno or 0, _SHUT)
    text = str(error).lower()
    fitting = (advice for words, advice in _ADVICE.items() if words in text)
    return next(fitting, "SQLite rejects it")


def _open(path: Path, create: bool) -> sqlite3.Connection:
    """Return the connection, which writes only if the file and its folder allow it."""
    writable = create or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    if create:
        mode = "?mode=rwc"
    elif writable:
        mode = "?mode=rw"
    elif path.with_name(path.name + "-wal").exists():
        mode = "?mode=ro"
    else:
        # A reader of a WAL file writes beside it, unless the file is declared immutable.
        mode = "?mode=ro&immutable=1"
    uri = path.absolute().as_uri() + mode
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _prepare(connection: sqlite3.Connection, path: Path, create: bool) -> None:
    if not _has_tables(connection, path):
        if not create:
            raise missing(path)
        _write_ahead(connection)
        _make_tables(connection)
    connection.execute("PRAGMA synchronous = FULL")


def _has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True for a store, False for a new file.

    Raises StoreError for another kind of file and for a store of another form.
    """
    # One snapshot for both queries: another scan may be creating the tables.
    connection.execute("BEGIN")
    try:
        form = _read_form(connection)
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {name for (name,) in rows}
    finally:
        connection.execute("ROLLBACK")
    if not tables and not form:
        return False
    if not tables >= {"runs", "records", "run_records"} or not form:
        raise StoreError(f"{path} is not a flacheck store: name another folder with --store")
    if form != FORM:
        raise StoreError(
            f"{path} is a store of form {form}, and this flacheck reads form {FORM}: name another "
            "folder with --store, or use the flacheck that wrote it"
        )
    return True


def _read_form(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have made them while this one waited.
        if not _read_form(connection):
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {FORM}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to WAL, for which SQLite does not always wait despite its timeout."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.02)
