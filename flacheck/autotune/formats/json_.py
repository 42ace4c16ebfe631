"""The contract's `flacheck.autotune/1`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from flacheck.autotune.examined import TunerResult
from flacheck.reports.base import Page

SCHEMA = "flacheck.autotune/1"


def render(kernel: str, results: Sequence[TunerResult], page: Page) -> Iterator[str]:
    """One document."""
    found = {
        "schema": SCHEMA,
        "kernel": kernel,
        "results": [result.to_json() for result in results],
    }
    yield json.dumps(found, indent=1, ensure_ascii=False) + "\n"
