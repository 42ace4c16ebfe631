"""The report of what there is: kernels, targets, toolchains, runs, a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flacheck.reports.document import Fit, Report, Table, row


def report(rows: Sequence[Mapping[str, Any]], headed: bool = True) -> Report:
    """Rows that all have the names of the first one, which are the headings."""
    headings: tuple[str, ...] = ()
    for each in rows[:1]:
        headings = tuple(each)
    if not headed:
        headings = ("",) * len(headings)
    texts = tuple(row(*map(str, each.values())) for each in rows)
    # Such lists are read by grep and awk as much as by people: a line stays a line.
    return Report([Table(headings, texts, Fit.STAY)], rows)
