"""The answer of a comparison whose releases were measured on a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flacheck.api.diff import with_measurements
from flacheck.errors import Exit
from flacheck.evidence.measured.comparison import FIELD, compare
from flacheck.model import Purpose
from flacheck.reports import diff as diff_report
from flacheck.reports import render
from flacheck.reports.document import Display
from flacheck.store import Store
from tests.evidence.measured.test_comparison import launch, measurement
from tests.made_diff import NEW, OLD, kernels, result
from tests.schemas import validate_json

SLOW = measurement(launch("hgrn", {OLD: 10.0, NEW: 14.0}), launch("gla", {OLD: 9.0, NEW: 3.0}))
WRONG = measurement(launch("gla", {OLD: 10.0, NEW: 10.0}, wrong=NEW))


def test_an_upgrade_that_is_slower_on_the_gpu_is_a_restricted_yes() -> None:
    """A slower operator is no regression; text and JSON have the ratios."""
    comparison = result(kernels(OLD, "one"), kernels(NEW, "one"))
    comparison = replace(comparison, measured=tuple(compare([SLOW], OLD, NEW)))
    assert comparison.answer.startswith("Yes, but on an H200: 1 of 2 operators slower: ")
    (point, *_) = comparison.in_words.points
    assert point.text == (
        "on an H200: 1 of 2 operators slower (hgrn 1.40), 1 faster, no wrong output"
    )
    assert comparison.exit_code() is Exit.OK
    page = "".join(render("markdown", diff_report.report(comparison), Display()))
    assert "On NVIDIA H200, driver 13.0, 2026-11-29" in page
    assert "1.40 slower" in page and "0.33 faster" in page
    document = comparison.to_json()
    validate_json("diff", document)
    (measured,) = document["measured"]
    assert [each["ratio"] for each in measured["operators"]] == [1.4, 0.3333]


def test_a_wrong_result_is_a_regression() -> None:
    """The kernel and the reason stand in the report."""
    comparison = result(kernels(OLD, "one"), kernels(NEW, "one"))
    comparison = replace(comparison, measured=tuple(compare([WRONG], OLD, NEW)))
    assert comparison.answer == (
        "No: on an H200: 0 of 1 operators slower, 0 faster, 1 kernel wrong (gla_kernel) on sm90"
    )
    assert comparison.exit_code() is Exit.FINDINGS
    page = "".join(render("markdown", diff_report.report(comparison), Display()))
    assert "gla_kernel computes a wrong result" in page
    assert "half of its elements differ" in page


def test_measurements_come_from_the_store(tmp_path: Path) -> None:
    """Only those of the compared subject and releases count; without a store there are none."""
    comparison = replace(result(kernels(OLD, "one"), kernels(NEW, "one")), about="package==1.0")
    assert with_measurements(comparison, tmp_path).measured == ()
    with Store.open(tmp_path) as store:
        run = store.begin_run({}, "package==1.0", purpose=Purpose.MEASURE)
        store.finish_run(run, {FIELD: SLOW.to_json()})
    (measured,) = with_measurements(comparison, tmp_path).measured
    assert [each.ratio for each in measured.slower] == [1.4]
    other = replace(comparison, about="other==1.0")
    assert with_measurements(other, tmp_path).measured == ()
