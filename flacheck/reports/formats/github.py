"""The annotations of a report as GitHub's workflow commands."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.reports.document import Annotation, Display, Report


def render(report: Report, display: Display) -> Iterator[str]:
    """A command a line, as wide as it comes out: a workflow's log may be a narrow terminal."""
    for annotation in report.annotations:
        yield _command(annotation)


def _command(said: Annotation) -> str:
    place = {"file": said.file, "line": said.line, "title": said.title}
    properties = ",".join(
        f"{name}={_property(str(value))}" for name, value in place.items() if value is not None
    )
    return f"::{said.level} {properties}::{_message(said.text)}\n"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    # A property ends at a comma or a colon, a message does not.
    return _message(text).replace(":", "%3A").replace(",", "%2C")
