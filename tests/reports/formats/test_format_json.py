"""The value of a report for programs."""

from __future__ import annotations

import json as parser
from collections.abc import Iterator
from typing import Any

import pytest

from flacheck.model import Json
from flacheck.reports.document import Display, Report, Streamed
from flacheck.reports.formats import json, jsonl


def test_a_long_list_is_written_item_by_item() -> None:
    """In both formats the second item is asked for after the first is written."""
    asked: list[int] = []

    def items() -> Iterator[Json]:
        for number in range(3):
            asked.append(number)
            yield {"n": number}

    def report() -> Report:
        return Report([], Streamed({"schema": "x"}, "items", items(), {"end": None}))

    whole = "".join(json.render(report(), Display()))
    body = '{"n": 0},\n{"n": 1},\n{"n": 2}'
    assert whole == f'{{"schema": "x",\n"items": [\n{body}\n],\n"end": null}}\n'
    asked.clear()
    lines = jsonl.render(report(), Display())
    assert [next(lines), next(lines)] == ['{"schema": "x"}\n', '{"n": 0}\n']
    assert asked == [0]
    assert list(lines)[-1] == '{"end": null}\n'


def test_a_plain_value_is_indented_or_one_line() -> None:
    """For people who look at it, and for programs that read lines."""
    value: Any = {"schema": "x", "name": "Größe"}
    indented = "".join(json.render(Report([], value), Display()))
    assert indented == '{\n  "schema": "x",\n  "name": "Größe"\n}\n'
    assert (
        "".join(jsonl.render(Report([], value), Display())) == '{"schema": "x", "name": "Größe"}\n'
    )


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_streamed_document_is_json(count: int) -> None:
    """With however many items."""
    items = ({"n": number} for number in range(count))
    streamed = Streamed({"schema": "x"}, "items", items, {"summary": {}})
    text = "".join(json.render(Report([], streamed), Display()))
    expected = {"schema": "x", "items": [{"n": n} for n in range(count)], "summary": {}}
    assert parser.loads(text) == expected


def test_what_json_cannot_hold_is_an_error() -> None:
    """NaN is no JSON, though Python would write it."""
    with pytest.raises(ValueError, match="Out of range float"):
        json.dump({"seconds": float("nan")})
