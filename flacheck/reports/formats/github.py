"""The annotations of a report as GitHub's workflow commands."""

from collections import Counter
from collections.abc import Iterator

from flacheck.reports.document import Annotation, Display, Report, make_visible

# GitHub shows ten errors and ten warnings of a step, and drops the others silently.
_MOST = 10


def render(report: Report, display: Display) -> Iterator[str]:
    """Yield one command a line, never broken, because a log may be a narrow terminal."""
    counts: Counter[str] = Counter()
    for annotation in map(make_visible, report.annotations):
        counts[annotation.level] += 1
        # Notices hold the result and stay below the limit.
        if annotation.level == "notice" or counts[annotation.level] <= _MOST:
            yield _command(annotation)
    for level, count in counts.items():
        if level != "notice" and count > _MOST:
            text = f"{count - _MOST} more of this level are omitted (--format json has all)"
            yield _command(Annotation("notice", f"more {level}s", text))


def _command(annotation: Annotation) -> str:
    place = {}
    for each in annotation.places[:1]:
        place = {"file": each.file, "line": each.line}
    properties = []
    for name, value in {**place, "title": annotation.title}.items():
        if value is not None:
            # A property ends at a comma or a colon, a message does not.
            text = _escape(str(value)).replace(":", "%3A").replace(",", "%2C")
            properties.append(f"{name}={text}")
    return f"::{annotation.level} {','.join(properties)}::{_escape(annotation.text)}\n"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
