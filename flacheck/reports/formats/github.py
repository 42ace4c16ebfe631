"""The annotations of a report as GitHub's workflow commands."""

from collections.abc import Iterator

from flacheck.reports.document import Display, Report, make_visible


def render(report: Report, display: Display) -> Iterator[str]:
    """A command a line, as wide as it comes out: a workflow's log may be a narrow terminal."""
    for said in map(make_visible, report.annotations):
        place = {"file": said.file, "line": said.line, "title": said.title}
        properties = []
        for name, value in place.items():
            if value is not None:
                # A property ends at a comma or a colon, a message does not.
                text = _escaped(str(value)).replace(":", "%3A").replace(",", "%2C")
                properties.append(f"{name}={text}")
        yield f"::{said.level} {','.join(properties)}::{_escaped(said.text)}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
