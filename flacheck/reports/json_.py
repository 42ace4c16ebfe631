"""The report as one JSON document (flacheck.run/1), a record a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flacheck.reports.base import Page, RunView

SCHEMA = "flacheck.run/1"


def render(view: RunView, page: Page) -> Iterator[str]:
    """The document in pieces, so that no run is ever in memory as a whole."""
    yield f'{{"schema": {dumped(SCHEMA)},\n"run": {dumped(view.run)},\n"records": ['
    separator = "\n"
    for record in view.records():
        yield separator + dumped(record.to_json())
        separator = ",\n"
    yield f'\n],\n"summary": {dumped(view.summary.to_json())}}}\n'


def dumped(value: Any) -> str:
    """One line of JSON, as strict parsers want it: no NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
