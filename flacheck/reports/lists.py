"""The report of what there is: kernels, targets, toolchains, runs, a line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flacheck.reports.document import Fit, Report, Table, row


def report(rows: Sequence[Mapping[str, Any]]) -> Report:
    """Rows that all have the names of the first one, which are the headings."""
    headings = tuple(rows[0]) if rows else ()
    return Report([_table(headings, (each.values() for each in rows))], rows)


def lines(rows: Sequence[Sequence[str]]) -> Report:
    """Rows without headings, all equally long."""
    columns = max(map(len, rows), default=0)
    return Report([_table(("",) * columns, rows)], rows)


def _table(headings: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> Table:
    # Such lists are read by grep and awk as much as by people: a line stays a line.
    return Table(headings, tuple(row(*map(str, each)) for each in rows), Fit.STAY)
