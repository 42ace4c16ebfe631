"""A report as one HTML page without network access: the answer with its pins, the parts."""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import groupby, takewhile
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from flacheck.reports import document, page
from flacheck.reports.document import Display, Part, Report
from flacheck.version import __version__

# The rows of a table that a page shows; JSON has all.
_MOST_ROWS = 500


def render(report: Report, display: Display) -> Iterator[str]:
    """Yield the page in pieces."""
    parts = [document.make_visible(part) for part in report.parts]
    title = document.Title("flacheck", "", document.Tone.PLAIN)
    if parts and isinstance(parts[0], document.Title):
        title = parts.pop(0)
    answer = list(takewhile(lambda part: isinstance(part, document.Paragraph), parts))
    script = _text("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_text("report.html.j2"))
    yield from template.stream(
        title=title,
        answer=answer,
        pins=list(map(document.make_visible, report.pins)),
        sections=list(_sections(parts[len(answer) :])),
        style=Markup(_text("report.css")),
        script=Markup(script),
        script_digest=digest,
        version=__version__,
        most_rows=_MOST_ROWS,
    )


def _text(name: str) -> str:
    return files(page).joinpath(name).read_text(encoding="utf-8")


def _sections(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    """Yield the parts by heading, with the items of a list as one block."""
    section: dict[str, Any] = {"heading": "", "blocks": []}
    for kind, alike in groupby(parts, type):
        for part in alike if kind is not document.Item else [list(alike)]:
            if isinstance(part, document.Heading):
                if section["heading"] or section["blocks"]:
                    yield section
                section = {"heading": part.text, "blocks": []}
            else:
                section["blocks"].append((kind.__name__, part))
    if section["heading"] or section["blocks"]:
        yield section
