"""The value of a report as one JSON document."""

import json
from collections.abc import Iterator
from typing import Any

from flacheck.model import Json
from flacheck.reports.document import Display, Report, Streamed


def render(report: Report, display: Display) -> Iterator[str]:
    """Yield indented JSON; a long list has one item a line, so that memory use stays small."""
    value = report.value
    if not isinstance(value, Streamed):
        yield dump(value, indent=2) + "\n"
        return
    yield f'{{{_fields(value.before)},\n"{value.name}": ['
    separator = "\n"
    for item in value.items:
        yield separator + dump(item)
        separator = ",\n"
    yield f"\n],\n{_fields(value.after)}}}\n"


def dump(value: Any, indent: int | None = None) -> str:
    """Return strict JSON, without NaN."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def _fields(values: Json) -> str:
    return ",\n".join(f"{dump(name)}: {dump(value)}" for name, value in values.items())
