"""dtype by release: which pair to pin for each dtype, where they differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flacheck.evidence.analysis.slices import slices
from flacheck.model import Record
from tests.made_records import CONTEXT, PACKAGE, failure, record, unknown, whole


def rows(*records: Record, **context: Any) -> list[tuple[str, str | None, dict[str, str], Any]]:
    """The table's rows."""
    table = slices(whole(records), replace(CONTEXT, **context))
    return [(each.dtype, each.form, dict(each.answers), each.pair) for each in table]


def at(release: str, dtype: str, **more: Any) -> dict[str, Any]:
    return {"toolchain": f"triton=={release}", "dtype": dtype, **more}


def test_dtypes_that_differ_are_told_apart() -> None:
    """Each dtype has its newest working pair."""
    assert rows(
        record(**at("3.1.0", "bf16")),
        failure(**at("3.2.0", "bf16")),
        record(**at("3.1.0", "fp32")),
        record(**at("3.2.0", "fp32")),
    ) == [
        ("bf16", None, {"3.1.0": "good", "3.2.0": "fails"}, ("2.5.1", "3.1.0")),
        ("fp32", None, {"3.1.0": "good", "3.2.0": "good"}, ("2.6.0", "3.2.0")),
    ]


def test_dtypes_with_the_same_answer_need_no_table() -> None:
    """Dtypes with equal answers have no table."""
    assert rows(record(**at("3.2.0", "bf16")), record(**at("3.2.0", "fp32"))) == []
    assert rows(failure(**at("3.2.0", "bf16")), failure(**at("3.2.0", "fp32"))) == []


def test_a_kernel_without_a_dtype_is_part_of_every_row() -> None:
    """A failing kernel without a dtype fails every dtype."""
    table = rows(
        record(**at("3.1.0", "bf16")),
        failure(**at("3.2.0", "bf16")),
        record(**at("3.1.0", "fp32")),
        record(**at("3.2.0", "fp32")),
        failure(**at("3.2.0", None), kernel="m:index"),  # type: ignore[arg-type]
        record(**at("3.1.0", None), kernel="m:index"),  # type: ignore[arg-type]
    )
    assert table == []


def test_a_dtype_without_a_verdict_is_unknown() -> None:
    """A dtype that timed out is unknown."""
    table = rows(record(**at("3.2.0", "bf16")), unknown(**at("3.2.0", "fp32")))
    assert [(dtype, answers) for dtype, _, answers, _ in table] == [
        ("bf16", {"3.2.0": "good"}),
        ("fp32", {"3.2.0": "unknown"}),
    ]


def test_a_release_that_is_advised_against_is_pinned_last() -> None:
    """An older release without an advisory is preferred."""

    def advise(triton: str, target: str) -> list[str]:
        return ["wrong gradients"] if triton == "3.2.0" else []

    cells = [
        record(**at("3.1.0", "bf16")),
        record(**at("3.2.0", "bf16")),
        failure(**at("3.1.0", "fp32")),
        record(**at("3.2.0", "fp32")),
    ]
    pairs = {dtype: pair for dtype, _, _, pair in rows(*cells, advisories=advise)}
    assert pairs == {"bf16": ("2.5.1", "3.1.0"), "fp32": ("2.6.0", "3.2.0")}


def test_what_an_operator_launches_is_one_choice() -> None:
    """With --op, forms in several modules are one choice."""
    forms = {
        (PACKAGE, "m:chunk"): ("fla.ops.common", "chunk"),
        (PACKAGE, "m:fused"): ("fla.ops.retention", "fused_recurrent"),
    }
    cells = [
        failure(**at("3.2.0", "bf16"), kernel="m:chunk"),
        record(**at("3.2.0", "bf16"), kernel="m:fused"),
    ]
    context = replace(CONTEXT, forms=forms)
    assert list(slices(whole(cells), context)) == []
    standings = whole(cells, selection={"ops": ["retention"]})
    table = [(each.dtype, each.form, each.good) for each in slices(standings, context)]
    assert table == [("bf16", "chunk", []), ("bf16", "fused_recurrent", ["3.2.0"])]
