"""The outcome as one JSON document on one line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from flacheck.gate.result import GateResult
from flacheck.reports.base import Page


def render(outcome: GateResult, page: Page, suggest: bool, strict: bool) -> Iterator[str]:
    """The document."""
    yield json.dumps(outcome.to_json(), ensure_ascii=False) + "\n"
