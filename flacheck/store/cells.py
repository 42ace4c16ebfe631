"""The store's cells: what compiling one again takes and its record does not hold.

That is the kernel with its origin (for one that was cut out its whole source, kept once) and the
stages asked. The autotuner's list that a launch was filled from only describes it and is not kept.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from flacheck.model import Cell, Kernel, canonical, digest


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


def kernel(db: sqlite3.Connection, identity: str) -> Kernel:
    """A kernel that is stored under an identity."""
    (body,) = db.execute("SELECT body FROM kernels WHERE id = ?", (identity,)).fetchone()
    return Kernel.from_json(json.loads(body))


def adopt(db: sqlite3.Connection, other: sqlite3.Connection) -> None:
    """Take over another store's cells."""
    for row in other.execute("SELECT id, body FROM kernels"):
        db.execute("INSERT OR IGNORE INTO kernels VALUES (?, ?)", row)
    for cell in other.execute("SELECT key, kernel, stage, until FROM cells"):
        db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?)", cell)
