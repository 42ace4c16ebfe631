"""The answer of a comparison whose releases were measured on a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs

import flacheck
from flacheck.api.diff import with_measurements
from flacheck.capabilities.results.building import write_manifest
from flacheck.errors import Exit
from flacheck.evidence.measured.comparison import FIELD, compare
from flacheck.evidence.published.library import open_library
from flacheck.model import Purpose
from flacheck.pipeline.plan import Plan
from flacheck.reports import diff as diff_report
from flacheck.reports import render
from flacheck.reports import scan as scan_report
from flacheck.reports.document import Display
from flacheck.store import Store
from tests.evidence.measured.test_comparison import launch, measurement
from tests.evidence.published.test_published import pack_records, with_own_keys, write_file
from tests.made_diff import NEW, OLD, kernels, result
from tests.made_records import record
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


def test_a_published_measurement_stands_in_for_a_missing_own_one(tmp_path: Path) -> None:
    """The user's own measurement on the same GPU takes its place."""
    about = "flash-linear-attention==0.1.1"
    header, body = pack_records(with_own_keys([record(toolchain=NEW)]))
    published = tuple(compare([SLOW], OLD, NEW))
    write_file(tmp_path, structs.replace(header, measured=published), body)
    combinations = tmp_path / "list.yaml"
    combinations.write_text("version: 1\ncombinations: []\n")
    write_manifest(tmp_path, combinations)
    library = open_library(tmp_path)
    comparison = replace(result(kernels(OLD, "one"), kernels(NEW, "one")), about=about)
    (measured,) = with_measurements(comparison, tmp_path, library).measured
    assert [each.ratio for each in measured.slower] == [1.4]
    own = structs.replace(WRONG, about=about)
    with Store.open(tmp_path) as store:
        run = store.begin_run({}, about, purpose=Purpose.MEASURE)
        store.finish_run(run, {FIELD: own.to_json()})
    (measured,) = with_measurements(comparison, tmp_path, library).measured
    assert [each.kernel for each in measured.wrong] == ["package.ops:gla_kernel"]


def test_two_packages_under_one_release_have_no_measurement(tmp_path: Path) -> None:
    """Their launches are not each other's."""
    comparison = result(kernels(OLD, "one"), kernels(NEW, "one"))
    alike = replace(comparison, after=replace(comparison.after, toolchain=OLD))
    assert with_measurements(alike, tmp_path).measured == ()


def test_a_report_of_a_scan_shows_its_measured_releases(tmp_path: Path) -> None:
    """Each release of the scan stands beside the first one of the newest measurement."""
    cells = [record(toolchain=release) for release in (OLD, NEW)]
    about = str(cells[0].package)
    question, sets = Plan(about, [each.cell for each in cells], {}).asks()
    with Store.open(tmp_path) as store:
        run = store.begin_run({}, about, {}, question=question, key_sets=sets.values())
        store.add_many(run, cells)
        measured = store.begin_run({}, about, purpose=Purpose.MEASURE)
        store.finish_run(measured, {FIELD: structs.replace(SLOW, about=about).to_json()})
    report = flacheck.report(run, store=tmp_path, no_published=True)
    (comparison,) = report.view.measured
    assert (comparison.before, comparison.after) == (OLD, NEW)
    page = "".join(render("markdown", scan_report.report(report.view), Display()))
    assert (
        f"{NEW.partition('==')[2]} beside {OLD.partition('==')[2]}, on an H200: 1 of 2 operators slower"
        in page
    )
