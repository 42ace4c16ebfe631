"""Transcripts of `flacheck diff`, and comparisons over the fake toolchain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck import toolchains
from flacheck.capabilities.diff.comparing import compare
from flacheck.capabilities.diff.comparison_plan import ComparisonPlan
from flacheck.capabilities.diff.differences import DifferenceKind
from flacheck.capabilities.diff.result import Comparison
from flacheck.capabilities.diff.sides import ReleaseSide
from flacheck.errors import Exit
from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.summary import RunView, summarise
from flacheck.model import Cell, Purpose, Record, Stubbed
from flacheck.pipeline.events import Event, RecordSettled, drain
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.reports import render
from flacheck.reports.diff import report as diff_report
from flacheck.reports.document import Display
from flacheck.reports.scan import report
from flacheck.store import Store
from tests import fake
from tests.cli.test_cli import flacheck
from tests.fake.family import FakeFamily
from tests.made_records import failure, record
from tests.schemas import validate_json

ABORT = "abort LinearLayout.cpp:562: LinearLayout LinearLayout::reshapeOuts(int) const: Assertion `size == want' failed."
OLD, NEW = "triton==3.1.0", "triton==3.2.0"


def write_run(file: Path, *records: Record) -> str:
    """A run's JSON as a scan writes it."""
    run = {"id": "r", "started": "2026", "flacheck": "0", "python": "3", "platform": "x"}
    lines = list(records)
    view = RunView({**run, "matrix": "made"}, lambda: lines, summarise(lines, Context()))
    file.write_text("".join(render("json", report(view), Display())))
    return str(file)


def test_a_regression_between_two_files_is_the_answer_and_exit_code_1(tmp_path: Path) -> None:
    """A comparison of two files compiles nothing and makes no store."""
    before = write_run(tmp_path / "before.json", record(toolchain=OLD))
    after = write_run(tmp_path / "after.json", failure(toolchain=NEW))
    ran = flacheck("diff", before, after, cwd=tmp_path)
    assert ran.returncode == 1, ran.stderr
    first = " ".join(ran.stdout.split())
    assert first.startswith(
        "No: 1 of 1 kernel that compiled under Triton 3.1.0 fails under Triton 3.2.0 on sm90. "
        "Upgrading Triton 3.1.0 → 3.2.0 · "
    )
    assert "flacheck bisect" in ran.stdout
    assert not (tmp_path / ".flacheck").exists()


def test_json_of_the_command_is_valid(tmp_path: Path) -> None:
    """The JSON follows the schema, and the exit code is the same in every format."""
    before = write_run(tmp_path / "before.json", record(toolchain=OLD))
    after = write_run(tmp_path / "after.json", record(toolchain=NEW))
    ran = flacheck("diff", before, after, "--format", "json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    validate_json("diff", document)
    assert document["answer"] == "Yes: 1 of 1 kernel still compiles under Triton 3.2.0 on sm90"
    markdown = flacheck("diff", before, after, "--format", "markdown", cwd=tmp_path)
    assert "Upgrading Triton 3.1.0 → 3.2.0 ·" in markdown.stdout
    assert "\nDowngrading" in flacheck("diff", after, before, cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["2.9", "2.12"], 2, "2.9' names neither torch nor Triton: write torch==2.9.*"),
        (["triton==3.5.1"], 2, "TO"),
        (["triton==3.5.1", "nowhere.json"], 2, "nowhere.json: cannot be read"),
        (["run:last", "triton==3.5.1"], 2, "flacheck scan"),
        (["before.json", "before.json", "-t", "sm80"], 4, "no record matches the selection"),
        (["before.json", "before.json", "--format", "xml"], 2, "unknown format 'xml'"),
        (["before.json", "before.json", "--configs", "all"], 2, "expected usual, edges or own"),
        (["before.json", "triton==3.5.1"], 2, "--package or --matrix"),
    ],
)
def test_what_cannot_be_compared_is_said(
    arguments: list[str], code: int, message: str, tmp_path: Path
) -> None:
    """A wrong side or option gives one message and its exit code."""
    write_run(tmp_path / "before.json", record(toolchain=OLD, how="cut", kernel="a:b"))
    ran = flacheck("diff", *arguments, cwd=tmp_path)
    assert (ran.returncode, message in ran.stderr) == (code, True), ran.stderr
    assert "Traceback" not in ran.stderr


def side(version: str) -> ReleaseSide:
    (choice,) = toolchains.FAMILIES["fake"].resolve(f"=={version}").choices
    return ReleaseSide(f"fake=={version}", f"fake=={version}", choice)


def compare_cells(
    store: Store, cells: list[Cell], waived_kernels: tuple[str, ...] = (), **how: Any
) -> Comparison:
    """A comparison of 1.0 with 2.0, compiled by fake workers."""
    before, after = side("1.0"), side("2.0")
    both = [replace(cell, toolchain=each.spec) for each in (before, after) for cell in cells]
    choices = {each.spec: each.choice for each in (before, after)}
    plan = Plan("diff fakes", both, choices, purpose=Purpose.DIFF)
    options = RunOptions(timeout=200, jobs=2, memory_mb=512, **how)
    events: list[Event] = []
    requested = ComparisonPlan(before, after, "fakes", plan)
    comparing = compare(requested, store, lambda record: record.kernel in waived_kernels, options)
    result = drain(comparing, events.append)
    keys = [event.record.key for event in events if isinstance(event, RecordSettled)]
    # Other configurations of what regresses come last.
    assert sorted(keys[: len(both)]) == sorted(cell.key for cell in both)
    return result


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> FakeFamily:
    table = {
        "good": {"else": "compile"},
        "breaks": {"==2.0": ABORT, "else": "compile"},
        "mends": {"==1.0": ABORT, "else": "compile"},
        "bad": {"else": ABORT},
    }
    fake_family = FakeFamily(table)
    monkeypatch.setitem(toolchains.FAMILIES, "fake", fake_family)
    return fake_family


def test_a_comparison_compiles_both_sides_and_keeps_what_it_compiled(
    store: Store, family: FakeFamily
) -> None:
    """A second comparison compiles nothing, and its run is not a scan's."""
    cells = [fake.cell(name) for name in ("good", "breaks", "mends", "bad")]
    comparison = compare_cells(store, cells)
    assert [one.kernel for one in comparison.of(DifferenceKind.REGRESSED)] == ["fake.breaks"]
    assert [one.kernel for one in comparison.of(DifferenceKind.MENDED)] == ["fake.mends"]
    assert [one.kernel for one in comparison.without_change] == ["fake.good", "fake.bad"]
    assert comparison.exit_code() is Exit.FINDINGS
    assert {run.purpose for run in store.runs()} == {Purpose.DIFF}
    provided_count = len(family.provided)
    again = compare_cells(store, cells)
    assert (again.answer, len(family.provided)) == (comparison.answer, provided_count)


def test_a_waived_failure_is_no_regression(store: Store, family: FakeFamily) -> None:
    """A waived failure stays in the list and does not change the exit code."""
    comparison = compare_cells(
        store, [fake.cell("good"), fake.cell("breaks")], waived_kernels=("fake.breaks",)
    )
    assert comparison.exit_code() is Exit.OK
    assert [one.is_waived for one in comparison.of(DifferenceKind.REGRESSED)] == [True]


def test_a_made_up_launch_that_needs_too_much_memory_is_untested(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invented launch that exceeds the memory is untested; a recorded one has regressed."""
    large = {"==2.0": "shared 9999999", "else": "compile"}
    family = FakeFamily({"guessed": large, "seen": large})
    monkeypatch.setitem(toolchains.FAMILIES, "fake", family)
    invented, recording = fake.cell("guessed"), fake.cell("seen")
    origin = Stubbed("fake", "guessed", made_up=True)
    invented = replace(invented, kernel=replace(invented.kernel, origin=origin))
    result = compare_cells(store, [invented, recording])
    assert [one.kernel for one in result.of(DifferenceKind.UNTESTED)] == ["fake.guessed"]
    assert [one.kernel for one in result.of(DifferenceKind.REGRESSED)] == ["fake.seen"]
    assert result.in_words.points[-1].text == "1 not tested (fake.guessed)"


CONFIGS = ({"kwargs": {}, "num_warps": 8}, {"kwargs": {}, "num_warps": 4})


def tuned_cell(name: str) -> Cell:
    """A launch whose autotuner has another configuration."""
    return replace(fake.cell(name, num_warps=8), configs=CONFIGS)


def test_what_an_autotuner_skips_is_no_regression_while_another_configuration_compiles(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the autotuner skips one configuration, another one is compiled and compared."""
    by_warps = {"by": "num_warps", "8": "shared 9999999", "else": "compile"}
    table = {"tuned": {"==2.0": by_warps, "else": "compile"}, "alone": {"==2.0": "shared 9999999"}}
    fakes = FakeFamily(table)
    monkeypatch.setitem(toolchains.FAMILIES, "fake", fakes)
    result = compare_cells(store, [tuned_cell("tuned"), fake.cell("alone", num_warps=8)])
    assert [one.kernel for one in result.of(DifferenceKind.REGRESSED)] == ["fake.alone"]
    (same,) = result.without_change
    assert same.pair.after is not None
    assert same.pair.after.options == {"num_warps": 4}
    assert same.reason == "the autotuner skips num_warps=8 (FC501) and has others"
    text = "".join(render("table", diff_report(result), Display(width=200)))
    assert "Skipped by the autotuner\n  fake.tuned (bf16): the autotuner skips num_warps=8" in text


def test_a_tolerated_failure_among_stored_configurations_is_no_regression(tmp_path: Path) -> None:
    """A stored failure is excused by another configuration that compiles on the same side."""
    few = {"shared": 1, "shared_limit": 2, "registers": 8, "stack": 0, "spills": 0}
    cheap = record(toolchain=OLD, options={"num_warps": 8}, resources=few)
    before = write_run(tmp_path / "before.json", cheap, record(toolchain=OLD))
    tolerated_failure = failure(
        "FC501", "too much", toolchain=NEW, tolerated=True, options={"num_warps": 8}
    )
    after = write_run(tmp_path / "after.json", tolerated_failure, record(toolchain=NEW))
    ran = flacheck("diff", before, after, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    # Where lines end depends on how long the folder's name is.
    text = " ".join(ran.stdout.split())
    assert "the autotuner skips num_warps=8 (FC501) and has others" in text
    assert "More spills" not in text
    alone = write_run(tmp_path / "alone.json", tolerated_failure)
    assert flacheck("diff", before, alone, cwd=tmp_path).returncode == 1


def test_a_configuration_that_compiles_is_the_fallback_of_one_that_ends_the_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration that compiles is the fallback of one that aborts."""
    by_warps = {"by": "num_warps", "8": ABORT, "else": "compile"}
    fakes = FakeFamily({"tuned": {"==2.0": by_warps, "else": "compile"}})
    monkeypatch.setitem(toolchains.FAMILIES, "fake", fakes)
    result = compare_cells(store, [tuned_cell("tuned")])
    assert result.exit_code() is Exit.FINDINGS
    assert [fallback.use for fallback in result.fallbacks] == [{"num_warps": 4}]
