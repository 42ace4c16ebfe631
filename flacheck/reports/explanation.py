"""The report of `flacheck explain`: what failed, why, and what to do about it."""

from collections.abc import Iterator, Sequence

from flacheck.reports.document import Labelled, Paragraph, Part, Report, Tone
from flacheck.rules import explanation
from flacheck.rules.explanation import Explanation


def report(explanations: Sequence[Explanation]) -> Report:
    """The explanations of a code or of a log, the decisive one first."""
    return Report(_parts(explanations), explanation.to_json(explanations))


def _parts(explanations: Sequence[Explanation]) -> Iterator[Part]:
    if not explanations:
        yield Paragraph("no failure in this text")
    for each in explanations:
        yield Paragraph(f"{each.code}  {each.title}", Tone.STRONG)
        yield Labelled(tuple(_texts(each)))


def _texts(each: Explanation) -> Iterator[tuple[str, str]]:
    if each.line:
        yield f"line {each.line}", each.excerpt
    yield "cause", each.cause
    yield "remedy", each.remedy
    if each.bad:
        yield "fails", ", ".join(each.bad)
    if each.good:
        yield "works", ", ".join(each.good)
    for link in each.links:
        yield "see", link
