"""The parts of a report in GitHub's Markdown: for an issue, a pull request, a job's summary."""

import html
import re
from collections.abc import Iterator

from flacheck.model.text import code_span, fence
from flacheck.reports import document
from flacheck.reports.document import Display, Part, Report, Tone
from flacheck.reports.phrases import format_omitted

# GitHub accepts 65,536 characters in an issue; a run of any size stays below that.
MOST_ROWS = 60
# Characters with a meaning in Markdown or HTML; underscores within names have none.
_SPECIAL = re.compile(r"[\\`*<\[&]|~(?=~)")
# Beginnings that turn a line into a heading, a quotation or another list.
_BEGINNING = re.compile(r"^(?:[#>]|[-+](?=\s)|(?<=\d)[.)](?=\s))")
_BOLD = (Tone.STRONG, Tone.BAD)


def render(report: Report, display: Display) -> Iterator[str]:
    """Yield the parts with an empty line between them, the items of a list without."""
    before: Part | None = None
    for part in map(document.make_visible, report.parts):
        in_list = isinstance(before, document.Item) and isinstance(part, document.Item)
        if before is not None and not in_list:
            yield "\n"
        yield _text(part) + "\n"
        before = part


def _text(part: Part) -> str:
    match part:
        case document.Title():
            about = part.about and f"\n\n{_inline(part.about)}"
            return f"## {_inline(part.subject)}\n\n{_inline(part.result)}{about}"
        case document.Heading():
            return f"### {_inline(part.text)}"
        case document.Paragraph():
            texts = (_inline(part.text, part.tone), _inline(part.aside))
            return " ".join(filter(None, texts))
        case document.Item():
            lines = (_inline(part.text, part.tone, part.code), *map(_inline, part.notes))
            return f"- {'<br>'.join(lines)}"
        case document.Labelled():
            return _details(part)
        case document.Listing():
            marks = fence(part.text, 3)
            return f"{marks}{part.language}\n{part.text}\n{marks}"
        case document.Table():
            return "\n".join(_table(part))


def _details(part: document.Labelled) -> str:
    labels: dict[str, None] = {}
    paragraphs = []
    for label, text in part.texts:
        labels[label] = None
        paragraphs.append(f"{_inline(label)}: {_inline(text)}")
    summary = html.escape(", ".join(labels))
    texts = "\n\n".join(paragraphs)
    return f"<details><summary>{summary}</summary>\n\n{texts}\n\n</details>"


def _table(table: document.Table) -> Iterator[str]:
    yield _row(list(map(_inline, table.headings)))
    yield _row(["---"] * len(table.headings))
    for cells in table.rows[:MOST_ROWS]:
        texts = [_inline(cell.text, cell.tone, cell.code) for cell in cells]
        missing = len(table.headings) - len(texts)
        yield _row(texts + [""] * missing)
    if len(table.rows) > MOST_ROWS:
        yield f"\n{format_omitted(len(table.rows), 'row', MOST_ROWS)}"


def _row(texts: list[str]) -> str:
    # In a table, a bar ends its cell even within code.
    cells = [text.replace("|", r"\|") for text in texts]
    return f"| {' | '.join(cells)} |"


def _inline(text: str, tone: Tone = Tone.PLAIN, code: bool = False) -> str:
    """Return text within a line, its own lines joined by `<br>`."""
    lines = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if code:
            lines.append(_in_table(line))
        else:
            line = _SPECIAL.sub(r"\\\g<0>", line)
            lines.append(_BEGINNING.sub(r"\\\g<0>", line))
    whole = "<br>".join(lines)
    if whole and tone in _BOLD:
        return f"**{whole}**"
    return whole


def _in_table(text: str) -> str:
    """Return code for a table cell, with entities where a backslash would end the cell."""
    if r"\|" not in text:
        return code_span(text)
    return f"<code>{''.join(map(_entity, text))}</code>"


def _entity(character: str) -> str:
    return character if character.isalnum() else f"&#{ord(character)};"
