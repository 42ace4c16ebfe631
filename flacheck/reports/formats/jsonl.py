"""The value of a report as JSON lines."""

from collections.abc import Iterator

from flacheck.reports.document import Display, Report, Streamed
from flacheck.reports.formats.json import dump


def render(report: Report, display: Display) -> Iterator[str]:
    """Yield one line, or for a long list one line for its fields and one for each item."""
    value = report.value
    if not isinstance(value, Streamed):
        yield dump(value) + "\n"
        return
    yield dump(value.before) + "\n"
    for item in value.items:
        yield dump(item) + "\n"
    yield dump(value.after) + "\n"
