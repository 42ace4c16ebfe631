"""The annotations of a report as a workflow's commands."""

from __future__ import annotations

from flacheck.model.source_location import SourceLocation
from flacheck.reports.document import Annotation, Display, Paragraph, Report
from flacheck.reports.formats import github


def lines_of(report: Report) -> list[str]:
    return "".join(github.render(report, Display())).splitlines()


def test_only_annotations_reach_a_workflow() -> None:
    """Each annotation is one line with its text escaped."""
    messages = (
        Annotation("error", "a: b, c", "50%\nof it", (SourceLocation("r.txt", 3),)),
        Annotation("notice", "d", "e: f"),
    )
    report = Report([Paragraph("not this")], annotations=messages)
    assert lines_of(report) == [
        "::error file=r.txt,line=3,title=a%3A b%2C c::50%25%0Aof it",
        "::notice title=d::e: f",
    ]


def test_without_annotations_nothing_is_said() -> None:
    """A report without annotations has no output."""
    assert lines_of(Report([Paragraph("fine")])) == []
