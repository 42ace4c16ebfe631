"""The formats for code scanning, CI servers and browsers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml

import flacheck
from flacheck import reports
from flacheck.cli import common
from flacheck.errors import UsageError
from flacheck.model import Corpus, Imported, Kernel
from flacheck.model.source_location import SourceLocation
from flacheck.reports.document import Annotation, Case, CaseOutcome, Display, Report
from flacheck.source.packages.kernel_locations import KernelLocator
from tests.made_reports import REPORTS
from tests.paths import ROOT

HOSTILE = "</script><img src=x onerror=alert(1)>\x00\ud800"


def render_as(format: str, report: Report) -> str:
    return "".join(reports.render(format, report, Display()))


def test_a_result_for_each_place_of_a_failure() -> None:
    """Each place of a failure is a result with its rule's index."""
    places = (SourceLocation("a b.py", 3, "m:f"), SourceLocation(None, None, "m:g"))
    failure = Annotation("error", "FC302 x", "text", places, "FC302", "FC302:llir")
    value = json.loads(
        render_as("sarif", Report([], annotations=[failure, Annotation("notice", "a", "b")]))
    )
    (run,) = value["runs"]
    first, second = run["results"]
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": quote("a b.py")},
        "region": {"startLine": 3},
    }
    assert "physicalLocation" not in second["locations"][0]
    assert first["partialFingerprints"] != second["partialFingerprints"]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "FC302"
    assert [each["level"] for each in run["invocations"][0]["toolExecutionNotifications"]] == [
        "note"
    ]


@pytest.mark.parametrize("command", ["scan", "diff", "gate"])
def test_a_junit_reader_counts_what_fails(command: str, tmp_path: Path) -> None:
    """Failing cases are counted by a JUnit reader."""
    file = tmp_path / "report.xml"
    file.write_text(render_as("junit", REPORTS[command](tmp_path)), encoding="utf-8")
    read = JUnitXml.fromfile(str(file))
    read.update_statistics()
    cases = list(REPORTS[command](tmp_path).cases)
    assert read.tests == len(cases)
    assert read.failures == sum(case.outcome is CaseOutcome.FAILED for case in cases) > 0


def test_hostile_names_stay_text() -> None:
    """The XML is well-formed, and a hostile name does not become markup."""
    case = Case(HOSTILE, HOSTILE, HOSTILE, CaseOutcome.FAILED, HOSTILE, HOSTILE)
    ElementTree.fromstring(render_as("junit", Report([], cases=[case])))
    assert "<img" not in render_as("html", Report([], pins=[("pin", HOSTILE)]))


@pytest.mark.parametrize("command", sorted(REPORTS))
def test_every_report_is_a_page_without_network(command: str, tmp_path: Path) -> None:
    """The page loads nothing from a network."""
    page = render_as("html", REPORTS[command](tmp_path))
    assert "default-src 'none'" in page
    assert not re.search(r'(src|href)="(?!#)', page)


def test_a_kernel_of_flacheck_has_file_and_line(tmp_path: Path) -> None:
    """A corpus kernel has the line of its definition."""
    kernel = Kernel("retention.chunk_fwd_o", None, "0", Corpus("retention", "chunk_fwd_o"))
    place = KernelLocator(tmp_path).find(kernel)
    assert place.file == "kernels/retention.py"
    source = (ROOT / place.file).read_text().splitlines()
    assert place.line is not None
    assert source[place.line - 1].startswith("def chunk_fwd_o(")


def test_a_kernel_of_the_project_comes_before_other_files(tmp_path: Path) -> None:
    """The path is relative to the project."""
    file = tmp_path / "src" / "pkg" / "ops.py"
    file.parent.mkdir(parents=True)
    file.write_text("import triton\n\nclass A:\n    def f(x): ...\n")
    kernel = Kernel("pkg.ops:A.f", "pkg==1", "0", Imported("pkg.ops", "A.f"))
    assert KernelLocator(tmp_path).find(kernel) == SourceLocation(
        "src/pkg/ops.py", 4, "pkg.ops:A.f"
    )


@pytest.mark.parametrize("text", ["html", "nope=a", "html=missing/a.html", "html=same.txt"])
def test_a_wrong_further_report_is_an_error_before_the_work(text: str) -> None:
    """A wrong --report is an error before the scan."""
    with pytest.raises(UsageError):
        common.check_output(Path("same.txt"), [text])


def test_every_schema_has_an_identity_of_its_own() -> None:
    """Every schema has an own `$id`."""
    schemas = [flacheck.schema(name) for name in flacheck.list_schemas()]
    assert len({each["$id"] for each in schemas}) == len(schemas) >= 10
    with pytest.raises(UsageError, match="there are"):
        flacheck.schema("nope")
