"""The outcome as one JSON document (flacheck.gate/1)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from flacheck.gate.result import GateResult
from flacheck.reports.base import Page


def render(outcome: GateResult, page: Page, suggest: bool, strict: bool) -> Iterator[str]:
    """The document; it holds the suggestions whether they were asked for or not."""
    yield json.dumps(outcome.to_json(), indent=2, ensure_ascii=False) + "\n"
