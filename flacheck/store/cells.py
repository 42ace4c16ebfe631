"""The store's cells: what compiling one again takes and its record does not hold.

That is the kernel with its origin (for one that was cut out its whole source, kept once) and the
stages asked. The autotuner's list that a launch was filled from only describes it and is not kept.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from flacheck.model import Cell, Kernel, Launch, Record, canonical, digest


def insert(db: sqlite3.Connection, cells: Iterable[Cell]) -> None:
    """Add the cells that are not there yet; a key never changes its meaning."""
    # Thousands of cells share a handful of kernels, and a kernel may hold a whole source: look at
    # each object once.
    kernels: dict[int, tuple[Kernel, str]] = {}
    for cell in cells:
        if id(cell.kernel) not in kernels:
            kernels[id(cell.kernel)] = cell.kernel, _insert_kernel(db, cell.kernel)
        row = (cell.key, kernels[id(cell.kernel)][1], cell.stage, cell.until)
        db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?)", row)


def _insert_kernel(db: sqlite3.Connection, kernel: Kernel) -> str:
    body = canonical(kernel.to_json())
    identity = digest(body)
    db.execute("INSERT OR IGNORE INTO kernels VALUES (?, ?)", (identity, body))
    return identity


def find(db: sqlite3.Connection, record: Record) -> Cell | None:
    """The cell of a record, None when it is not there."""
    sql = "SELECT k.body, c.stage, c.until FROM cells c JOIN kernels k ON k.id = c.kernel WHERE c.key = ?"
    found = db.execute(sql, (record.key,)).fetchone() if _kept(db) else None
    if found is None:
        return None
    body, stage, until = found
    return of_record(record, Kernel.from_json(json.loads(body)), stage, until)


def of_record(record: Record, kernel: Kernel, stage: str, until: str | None) -> Cell:
    """What a record says of its cell, with what it does not say."""
    return Cell(
        kernel=kernel,
        toolchain=record.toolchain,
        target=record.target,
        launch=Launch.from_json(record.launch) if record.launch else None,
        options=dict(record.options),
        dtype=record.dtype,
        shape=dict(record.shape),
        widened=record.widened,
        stage=stage,
        until=until,
    )


def adopt(db: sqlite3.Connection, other: sqlite3.Connection) -> None:
    """Take over another store's cells."""
    if _kept(other):
        for kernel in other.execute("SELECT id, body FROM kernels"):
            db.execute("INSERT OR IGNORE INTO kernels VALUES (?, ?)", kernel)
        for cell in other.execute("SELECT key, kernel, stage, until FROM cells"):
            db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?)", cell)


def _kept(db: sqlite3.Connection) -> bool:
    """Whether the file has cells at all; an older one that cannot be written has none."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'cells'").fetchone() is not None
