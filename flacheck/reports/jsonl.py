"""The report as JSON lines: the run, then one record a line, last the summary."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.reports.base import Page, RunView
from flacheck.reports.json_ import SCHEMA, dumped


def render(view: RunView, page: Page) -> Iterator[str]:
    """One line a piece."""
    yield dumped({"schema": SCHEMA, "run": view.run}) + "\n"
    for record in view.records():
        yield dumped(record.to_json()) + "\n"
    yield dumped({"summary": view.summary.to_json()}) + "\n"
