"""The annotations of a report as GitHub's workflow commands."""

from collections.abc import Iterator

from flacheck.reports.document import Display, Report, make_visible


def render(report: Report, display: Display) -> Iterator[str]:
    """Yield one command a line, never broken, because a log may be a narrow terminal."""
    for annotation in map(make_visible, report.annotations):
        place = {"file": annotation.file, "line": annotation.line, "title": annotation.title}
        properties = []
        for name, value in place.items():
            if value is not None:
                # A property ends at a comma or a colon, a message does not.
                text = _escape(str(value)).replace(":", "%3A").replace(",", "%2C")
                properties.append(f"{name}={text}")
        yield f"::{annotation.level} {','.join(properties)}::{_escape(annotation.text)}\n"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
