"""The reports of `recall.yaml`, and the judgement of a scan's result."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from flacheck.store import Store
from flacheck.tables import table
from flacheck.tables.targets import TARGETS
from tests.benchmarks.recall import (
    Report,
    cpu_seconds,
    is_stored,
    judge,
    judge_mended,
    load_reports,
)
from tests.made_records import failure

REPORT = Report(
    id="r",
    source="https://example.org/1",
    package="p==1",
    triton="3.5.0",
    target="sm90",
    kernel="bwd_*",
    message="does not dominate",
    version="report",
)
FAILURE = {"kernel": "p.ops:bwd_k", "verdict": "fails", "message": "operand #2 does not dominate"}


def answer(
    *records: dict[str, Any],
    untested_count: int = 0,
    missing_reason: str = "",
    partial: bool = False,
) -> dict[str, Any]:
    """A scan's JSON with these records of `bwd_k`."""
    group = {"kernel": "p.ops:bwd_k", "cells": untested_count}
    kernel = {"kernel": "p.ops:bwd_k", "reason": missing_reason}
    return {
        "records": [{"message": None, "signature": None, **each} for each in records],
        "summary": {
            "untested": [group] if untested_count else [],
            "partial": [{"answered": len(records), "asked": 9}] if partial else [],
            "coverage": [{"missed": [kernel] if missing_reason else []}],
        },
    }


def test_half_of_the_reports_are_sealed_and_ten_are_mended() -> None:
    """At least 40 reports, half of them sealed, and at least ten with a newer release that mends."""
    reports = load_reports()
    assert len({each.id for each in reports}) == len(reports) >= 40
    assert sum(each.sealed for each in reports) == len(reports) // 2
    assert sum(each.mended is not None for each in reports) >= 10


@pytest.mark.parametrize("report", load_reports(), ids=lambda report: report.id)
def test_every_report_can_be_asked_for(report: Report) -> None:
    """A report names an exact package, a Triton release and a GPU of the tables, a link and a regular expression."""
    assert re.fullmatch(r"[a-z0-9-]+==[\w.]+", report.package)
    assert report.triton in table("triton_releases")["releases"]
    assert report.target in TARGETS
    assert report.source.startswith("https://github.com/")
    re.compile(report.message)


@pytest.mark.parametrize(
    ("scan", "is_right", "why"),
    [
        (answer(FAILURE), True, "1 cells of p.ops:bwd_k"),
        (answer(FAILURE, FAILURE, untested_count=1), True, "2 cells of p.ops:bwd_k"),
        (answer(FAILURE, untested_count=1), False, "fails as reported, but not tested"),
        (answer({**FAILURE, "verdict": "compiles"}), False, "1 compiles"),
        (answer({**FAILURE, "message": "other", "signature": "S"}), False, "1 fails; S"),
        (answer({**FAILURE, "kernel": "p.ops:fwd"}), False, "not counted"),
        (answer(missing_reason="no arguments"), False, "not recorded: no arguments"),
        (answer(FAILURE, partial=True), True, "1 cells of p.ops:bwd_k"),
        (answer(partial=True), None, "the budget ended before any of its cells"),
        (
            answer({**FAILURE, "verdict": "compiles"}, partial=True),
            None,
            "the budget ended after 1 compiles",
        ),
    ],
)
def test_a_report_is_shown_by_a_tested_failure_with_its_message(
    scan: dict[str, Any], is_right: bool | None, why: str
) -> None:
    """A kernel that is missing, compiles, fails otherwise or is untested shows nothing, for that reason."""
    outcome = judge(REPORT, scan)
    assert (outcome.is_right, outcome.why) == (is_right, why)


def test_a_mended_report_compiles() -> None:
    """Under the newer release, one cell that still fails as reported is wrong."""
    fixed_failure = {**FAILURE, "verdict": "compiles", "message": None}
    assert judge_mended(REPORT, answer(fixed_failure)).is_right
    assert not judge_mended(REPORT, answer(fixed_failure, FAILURE)).is_right
    assert not judge_mended(REPORT, answer()).is_right


def test_a_scan_may_end_once_its_store_shows_the_report(tmp_path: Path) -> None:
    """A failure with another message is not the reported one."""
    failed = failure(line="operand #2 does not dominate", package="p==1", kernel="p.ops:bwd_k")
    with Store.open(tmp_path) as store:
        run = store.begin_run({})
        store.add(run, failure(package="p==1", kernel="p.ops:bwd_k"))
        assert not is_stored(REPORT, tmp_path)
        store.add(run, failed)
        assert is_stored(REPORT, tmp_path)


def test_the_budget_counts_the_time_of_child_processes() -> None:
    """A process that waits for a busy one has used the busy one's time."""
    busy = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while 1: pass'], timeout=60)"
    with subprocess.Popen([sys.executable, "-c", busy], start_new_session=True) as parent:
        deadline = time.monotonic() + 60
        while cpu_seconds(parent.pid) < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert cpu_seconds(parent.pid) >= 0.5
        os.killpg(parent.pid, signal.SIGKILL)
