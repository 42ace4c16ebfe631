"""The value of a report for programs."""

from __future__ import annotations

import json as parser
from typing import Any

import pytest

from flacheck.reports.document import Display, Report, Streamed
from flacheck.reports.formats import json, jsonl


def test_a_plain_value_is_indented_or_one_line() -> None:
    """JSON is indented, JSON lines have one line."""
    value: Any = {"schema": "x", "name": "Größe"}
    text = "".join(json.render(Report([], value), Display()))
    assert text == '{\n  "schema": "x",\n  "name": "Größe"\n}\n'
    assert (
        "".join(jsonl.render(Report([], value), Display())) == '{"schema": "x", "name": "Größe"}\n'
    )


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_streamed_document_is_json(count: int) -> None:
    """A streamed document is valid with any number of items."""
    items = ({"n": number} for number in range(count))
    stream = Streamed({"schema": "x"}, "items", items, {"summary": {}})
    text = "".join(json.render(Report([], stream), Display()))
    content = {"schema": "x", "items": [{"n": n} for n in range(count)], "summary": {}}
    assert parser.loads(text) == content


def test_what_json_cannot_hold_is_an_error() -> None:
    """NaN is an error."""
    with pytest.raises(ValueError, match="Out of range float"):
        json.dump({"seconds": float("nan")})
