"""The store's file while it is open: rows read, transactions, and whether others wrote to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flacheck.errors import StoreError
from flacheck.store.database import explain_errors
from flacheck.store.queries import CHUNK


class StoreFile:
    """An open SQLite file; what SQLite or the system raises about it is a StoreError."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection
        # Which file it is: SQLite goes on writing to one that was deleted.
        self._file = _identity(path)
        self._version = self._data_version()

    def close(self) -> None:
        with explain_errors(self.path):
            self._db.close()

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with explain_errors(self.path):
            return self._db.execute(sql, values).fetchall()

    def _paged(self, sql: str, *values: Any, ordered: bool = False) -> Iterator[tuple[Any, ...]]:
        """Rows by id, a page at a time: a slow reader neither fills memory nor holds up a
        checkpoint."""
        if not ordered:
            sql += " ORDER BY id"
        sql += " LIMIT ?"
        last = 0
        while rows := self._rows(sql, last, *values, CHUNK):
            yield from rows
            last = rows[-1][0]

    def others_wrote(self) -> bool:
        """Whether another connection has written to the file since this was last asked."""
        before, self._version = self._version, self._data_version()
        return before != self._version

    def _data_version(self) -> int:
        with explain_errors(self.path):
            return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if _identity(self.path) != self._file:
            raise StoreError(
                f"{self.path} was deleted or replaced while it was written to: what was stored in"
                " it is gone; give the same command again"
            )
        with explain_errors(self.path):
            # IMMEDIATE: a second writer waits here, where waiting is allowed, not in the middle.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
