"""A checkout's own tests under capture.

Their launches are observed ones, beside those of the driver.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from flacheck.engine import policies
from flacheck.errors import UsageError
from flacheck.files import json_lines
from flacheck.guest.engine.confinement import Policy
from flacheck.guest.engine.escapes import lay_bait
from flacheck.guest.test_suite import cases
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.subjects.captures import tests as suite
from flacheck.subjects.captures.cards import card
from flacheck.subjects.captures.coverage import coverage
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.launches import read
from flacheck.subjects.inputs.subject import Subject
from tests.captured import needs_torch
from tests.escaping import code, expected
from tests.guest.search.test_drive import KERNELS, package

TESTS = """
import pytest, torch
from tiny.kernels import rare, scale

@pytest.mark.parametrize("n", [16, 32, 64])
def test_rare(n):
    x = torch.zeros(n, device="cuda")
    rare[(1,)](x, x, K=n)

def test_that_compares():
    x = torch.zeros(8, device="cuda", dtype=torch.bfloat16)
    scale[(1,)](x, x, x, 8, K=16)
    assert x.sum().item() == 3.0

def test_that_is_wrong():
    raise ValueError("no such thing")

@pytest.mark.skip(reason="not today")
def test_that_is_skipped(): ...
"""


def run(folder: Path, seconds: float = 60.0, **files: str) -> suite.TestRun:
    """The tests of `tiny`, whose checkout this is."""
    package(folder, kernels=KERNELS)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    config = {
        "card": card("h100"),
        "package": "tiny==1.0",
        "packages": {str(folder): "tiny==1.0"},
        "checkout": str(folder),
        "seconds": seconds,
    }

    def environment(scratch: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": scratch}

    def policy(scratch: str) -> Policy:
        return policies.of_package([str(folder)], scratch)

    log = folder / "log.txt"
    return suite.run(config, environment, "running tests", log, policy)


@needs_torch
def test_tests_are_run_and_their_launches_recorded(tmp_path: Path) -> None:
    """The report has passed and failed tests, and whether a failure read a value that was never
    computed."""
    outcome = run(tmp_path, test_tiny=TESTS, test_broken="import nobody_has_this\n")
    launches = list(outcome.lines)
    by = {line["by"] for line in launches if "kernel" in line}
    assert by == {
        "test_tiny.py::test_rare[16]",
        "test_tiny.py::test_rare[32]",
        "test_tiny.py::test_rare[64]",
        "test_tiny.py::test_that_compares",
    }
    report = outcome.report
    assert report["tests"] == {"passed": 3, "failed": 2, "skipped": 1}
    assert report["wanting"] == ["test_tiny.py::test_that_compares"]
    wrong = "ValueError: no such thing"
    assert report["failures"]["test_tiny.py::test_that_is_wrong"] == wrong
    assert "nobody_has_this" in report["uncollected"]["test_broken.py"]
    assert (report["cut"], report["unrun"], report["ended"]) == ([], 0, None)


@needs_torch
def test_the_tests_of_a_checkout_have_no_way_out(tmp_path: Path) -> None:
    """Each way that the machine can close is closed to them."""
    checkout, outside = tmp_path / "checkout", tmp_path / "outside"
    checkout.mkdir()
    outside.mkdir()
    with lay_bait(str(outside)) as bait:
        text = f"{code(bait)}\ndef test_it():\n    assert {expected('programs')!r} <= set(closed)\n"
        outcome = run(checkout, test_tiny=text)
    assert outcome.report["tests"] == {"passed": 1, "failed": 0, "skipped": 0}, outcome.report


@needs_torch
def test_what_the_time_cuts_is_named(tmp_path: Path) -> None:
    """Without time no test is run, and each function is named once."""
    outcome = run(tmp_path, -1.0, test_tiny=TESTS)
    assert outcome.report["cut"] == [
        "test_tiny.py::test_rare",
        "test_tiny.py::test_that_compares",
        "test_tiny.py::test_that_is_wrong",
        "test_tiny.py::test_that_is_skipped",
    ]


@needs_torch
def test_a_checkout_without_tests_says_so(tmp_path: Path) -> None:
    """Its launches file is complete."""
    outcome = run(tmp_path)
    assert outcome.report["ended"] == "it has no tests that pytest finds"
    assert [line["package"] for line in outcome.lines] == ["tiny==1.0"]


MANY = """
import pytest, torch
from tiny.kernels import rare

@pytest.mark.parametrize("n", [16, 32, 64])
@pytest.mark.parametrize("times", range(100))
def test_rare(n, times):
    x = torch.zeros(n, device="cuda")
    rare[(1,)](x, x, K=n)

def test_that_never_ends():
    x = torch.zeros(1, device="cuda")
    while True:
        x = x + 1
"""


@needs_torch
def test_of_many_cases_some_are_run(tmp_path: Path) -> None:
    """A test that loops is ended by its number of operations."""
    outcome = run(tmp_path, 8.0, test_tiny=MANY)
    assert outcome.report["tests"] == {"passed": cases.MOST, "failed": 1, "skipped": 0}
    assert outcome.report["unrun"] == 300 - cases.MOST
    (error,) = outcome.report["failures"].values()
    assert error.endswith("TestTooLong: took too long")


def line(identity: str, kernel: str, **more: Any) -> dict[str, Any]:
    return {"id": identity, "kernel": kernel, **more}


def test_what_both_launched_stands_there_once() -> None:
    """A launch of both is recorded as the tests launched it, before the driver's own launches."""
    header = {"schema": "flacheck.launches/1"}
    outcome = suite.TestRun((header, line("a", "m:one", by="test")), {})
    driver = [header, line("a", "m:one", made_up=True), line("b", "m:two")]
    assert suite.merge_lines(outcome, driver) == [
        header,
        line("a", "m:one", by="test", call="test", sizes_from="the package's tests"),
        line("b", "m:two"),
    ]
    assert suite.by_source(outcome, driver) == {"tests": [], "driver": ["m:two"], "both": ["m:one"]}
    alone = suite.TestRun((), {})
    assert suite.merge_lines(alone, driver) == driver


def test_the_coverage_tells_how_tests_ended() -> None:
    """The coverage has a form that a report can show."""
    kernels = {"tests": ["m:one"], "driver": [], "both": []}
    results = {
        "tests": {"passed": 1, "failed": 1, "skipped": 0},
        "failures": {"t.py::a": "AssertionError"},
        "wanting": ["t.py::a"],
        "kernels": kernels,
    }
    section = coverage({"m:one": ("m:host",)}, {"m:one": 1}, {"tests": results})["tests"]
    assert section["failures"] == [
        {"test": "t.py::a", "error": "AssertionError", "wants_data": True}
    ]
    assert (section["passed"], section["ended"], section["kernels"]) == (1, None, kernels)
    assert "tests" not in coverage({}, {}, {})


def test_only_a_checkout_has_tests() -> None:
    """A package from the index has no tests."""
    subject = Subject(package="liger-kernel==0.8.5", with_tests=True)
    with pytest.raises(UsageError, match="name its folder by --package DIR"):
        planning.plan_job(Job(subject, Selection()))


@needs_torch
def test_the_launches_of_tests_are_read_as_seen(tmp_path: Path) -> None:
    """The arguments of these launches were not invented."""
    outcome = run(tmp_path, test_tiny=TESTS)
    file = tmp_path / "l.jsonl"
    file.write_bytes(json_lines(outcome.lines))
    assert {entry.made_up for entry in read(file).launches} == {False}
