"""The store's open file: reading rows, transactions, and detection of other writers."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flacheck.errors import StoreError
from flacheck.store.database import explain_errors
from flacheck.store.queries import CHUNK


class StoreFile:
    """An open SQLite file; errors of SQLite and the system become StoreError."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection
        # The file's identity: SQLite goes on writing to a deleted file.
        self._file = _file_identity(path)
        self._version = self._data_version()

    def close(self) -> None:
        with explain_errors(self.path):
            self._db.close()

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with explain_errors(self.path):
            return self._db.execute(sql, values).fetchall()

    def _read_pages(
        self, sql: str, *values: Any, has_order: bool = False
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows by id, a page at a time.

        The reader copies pages, so that a slow reader neither fills memory nor delays a checkpoint.
        """
        if not has_order:
            sql += " ORDER BY id"
        sql += " LIMIT ?"
        last = 0
        while rows := self._rows(sql, last, *values, CHUNK):
            yield from rows
            last = rows[-1][0]

    def others_wrote(self) -> bool:
        """Return True if another connection wrote to the file since the last call."""
        before, self._version = self._version, self._data_version()
        return before != self._version

    def _data_version(self) -> int:
        with explain_errors(self.path):
            return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if _file_identity(self.path) != self._file:
            raise StoreError(
                f"{self.path} was deleted or replaced while it was written to: the records in"
                " it are lost; give the same command again"
            )
        with explain_errors(self.path):
            # IMMEDIATE makes a second writer wait here, where waiting is allowed, not in the
            # middle.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")


def _file_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
