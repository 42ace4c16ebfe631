"""Stored values are checked against their form when they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flacheck.errors import StoreError
from flacheck.store import form
from tests.made_records import failure, record


def stored_row(**changes: Any) -> str:
    """A record's row with some of its columns changed."""
    return json.dumps({**failure().to_json(), **changes})


def test_a_record_is_read_as_it_was_stored() -> None:
    """A record without a launch, such as a CUDA unit's, can be read too."""
    for example in (record(), failure()):
        plain = example.to_json()
        assert form.record(json.dumps(plain)) == plain
    assert form.record(stored_row(launch=None))["launch"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"toolchain": "gcc"},
        {"verdict": "maybe"},
        {"seconds": -1},
        {"seconds": "long"},
        {"findings": [{"code": "FC302"}]},
        {"shape": {"T": "long"}},
        {"options": {"num_warps": [4]}},
        {"launch": {"args": {"x": {"dtype": "fp99", "align": 16}}}},
        {"launch": {"args": {}, "configs": [{"kwargs": {"B": [1]}}]}},
        {"resources": {"shared": "much"}},
        {"key": None},
    ],
)
def test_a_record_of_another_form_is_damage(change: dict[str, Any]) -> None:
    """The store raises one error with file, row and remedy."""
    with (
        pytest.raises(StoreError, match=r"f\.sqlite: record k is damaged .*restore it from a copy"),
        form.check_row(Path("f.sqlite"), "record", "k"),
    ):
        form.record(stored_row(**change))


def test_what_is_noted_of_a_run_has_a_form() -> None:
    """Unknown keys of a run's context are allowed."""
    context = {"kernels": ["k"], "forms": [[None, "k", "sum", "chunk"]], "answer": 3}
    assert form.context(json.dumps(context)) == context
    for text, message in (('{"kernels": [3]}', "kernels"), ("[]", "array"), ("{", "Expecting")):
        with pytest.raises(ValueError, match=message):
            form.context(text)


def test_a_runs_columns_are_text() -> None:
    """Only its end and its matrix may be missing."""
    form.columns({"id": "r", "started": "now", "finished": None, "matrix": None})
    with pytest.raises(ValueError, match="started is NoneType"):
        form.columns({"id": "r", "started": None})
    with pytest.raises(ValueError, match="matrix is int"):
        form.columns({"matrix": 3})


def test_a_fault_of_another_kind_is_no_damage() -> None:
    """Ctrl-C while a row is read is not reported as damage of the store."""
    with pytest.raises(KeyboardInterrupt), form.check_row(Path("f"), "record", "k"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "value",
    [
        '"\\ud800"',
        "NaN",
        "-Infinity",
        "1e999",
        "1" + "0" * 60,
        "[" * 60 + "]" * 60,
        # Brackets within a text close no level.
        "[" * 19 + '"' + "]" * 60 + '", ' + "[" * 40 + "]" * 59,
    ],
)
def test_a_value_that_json_lacks_or_that_is_too_deep_is_damage(value: str) -> None:
    """The text alone shows that most records hold none, so their values are not walked."""
    text = stored_row().replace('"facts": {}', f'"facts": {{"x": {value}}}')
    assert value in text
    with (
        pytest.raises(StoreError, match="is damaged"),
        form.check_row(Path("f.sqlite"), "record", "k"),
    ):
        form.record(text)


def test_what_looks_special_within_a_text_is_no_damage() -> None:
    """A message may quote a number or hold a character outside the basic plane."""
    plain = failure(line="NaN 1e999 [[[[[[[[[[[[[[[[[[[[[[[[[[ \U0001f600 " + "9" * 60).to_json()
    assert form.record(json.dumps(plain)) == plain
