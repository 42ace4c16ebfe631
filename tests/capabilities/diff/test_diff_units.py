"""Comparisons of two CUDA toolkits: functions, compilers and pins."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest

from flacheck import reports
from flacheck.capabilities.diff.compared_side import ComparedSide
from flacheck.capabilities.diff.differences import differences
from flacheck.capabilities.diff.matching import match
from flacheck.capabilities.diff.result import Comparison
from flacheck.model import Record
from flacheck.reports import diff as diff_report
from flacheck.reports.document import Display
from tests.made_records import failure, record
from tests.schemas import validate_json

OLD, NEW = "nvcc==13.0.88", "nvcc==13.5.37"
HOST = {"std": "c++17", "host": "g++ 12.2.0"}


def function(name: str, **figures: int) -> dict[str, Any]:
    return {"name": name, "registers": 128, "stack": 0, "spills": 0, "shared": 0, **figures}


def unit(toolchain: str, name: str, functions: Sequence[dict[str, Any]]) -> Record:
    figures = ("registers", "stack", "spills", "shared")
    most = {figure: max(each[figure] for each in functions) for figure in figures}
    figures_of_unit = {**most, "shared_limit": 101376, "functions": list(functions)}
    return record(
        toolchain=toolchain,
        kernel=name,
        options=HOST,
        resources=figures_of_unit,
        target="sm80",
        dtype=None,
    )


def text(result: Comparison) -> str:
    return "".join(reports.render("table", diff_report.report(result), Display(width=120)))


def side(toolchain: str, records: Sequence[Record]) -> ComparedSide:
    verdicts = Counter(each.verdict for each in records)
    return ComparedSide(toolchain, toolchain, toolchain, None, (), verdicts)


def compare_units(before: Sequence[Record], after: Sequence[Record], new: str = NEW) -> Comparison:
    pairs = differences(
        match(before, after), {}, lambda _: False, lambda _: "gone", lambda _: "new"
    )
    return Comparison(side(OLD, before), side(new, after), "ours==1", ("sm80",), tuple(pairs))


SPILLING = compare_units(
    [unit(OLD, "csrc/fwd.cu", [function("fwd<64>"), function("fwd<256>", registers=255)])],
    [
        unit(
            NEW,
            "csrc/fwd.cu",
            [function("fwd<64>", spills=88), function("fwd<256>", registers=255)],
        )
    ],
)


def test_a_toolkit_that_spills_where_another_did_not_is_in_json_function_by_function() -> None:
    """Text has no such table, because spills are a poor guess of what is slower."""
    page = text(SPILLING)
    assert "Upgrading nvcc 13.0.88 → 13.5.37 · " in page
    assert "bytes of spills" not in page
    row = SPILLING.to_json()["more_resources"][0]
    assert row["more"] == {"spills": {"from": 0, "to": 88}}
    assert row["functions"] == {"fwd<64>": {"spills": {"from": 0, "to": 88}}}


def test_nothing_is_said_of_triton_or_torch_where_toolkits_are_compared() -> None:
    """Triton and torch are neither columns nor pins."""
    page = text(SPILLING)
    assert "Triton" not in page and "torch" not in page
    pin = SPILLING.pin
    assert (pin.side, pin.torch, pin.triton, pin.toolchain) == ("to", None, None, NEW)


def test_a_toolkit_that_fails_is_not_the_one_to_use() -> None:
    """The pin is the other toolkit."""
    broken = compare_units(
        [unit(OLD, "csrc/fwd.cu", [function("fwd")])],
        [failure("FC801", toolchain=NEW, kernel="csrc/fwd.cu", options=HOST, target="sm80")],
    )
    assert broken.is_regression
    assert (broken.pin.side, broken.pin.toolchain) == ("from", OLD)
    assert broken.pin.why == "nvcc 13.5.37 breaks kernels that compiled"


def test_the_json_of_toolkits_follows_the_schema() -> None:
    """The JSON of toolkits follows the schema."""
    document = json.loads(json.dumps(SPILLING.to_json()))
    validate_json("diff", document)
    assert (document["to"]["toolchain"], document["pin"]["toolchain"]) == (NEW, NEW)
    with pytest.raises(jsonschema.ValidationError, match="toolchain"):
        validate_json("diff", {**document, "pin": {**document["pin"], "toolchain": 13}})
