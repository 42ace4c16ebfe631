"""The value of a report as JSON lines: one line, or for a long list its fields and an item each."""

from collections.abc import Iterator

from flacheck.reports.document import Display, Report, Streamed
from flacheck.reports.formats.json import dumped


def render(report: Report, display: Display) -> Iterator[str]:
    """One line a piece."""
    value = report.value
    if not isinstance(value, Streamed):
        yield dumped(value) + "\n"
        return
    yield dumped(value.before) + "\n"
    for item in value.items:
        yield dumped(item) + "\n"
    yield dumped(value.after) + "\n"
