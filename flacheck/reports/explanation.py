"""The report of `flacheck explain`: what failed, why, and what to do about it."""

from collections.abc import Iterator, Sequence

from flacheck.reports.document import Labelled, Paragraph, Part, Report, Tone
from flacheck.rules import UNCLASSIFIED, explanation
from flacheck.rules.explanation import Explanation
from flacheck.tables.advisories import Advisory


def report(explanations: Sequence[Explanation], advisories: Sequence[Advisory] = ()) -> Report:
    """The explanations of a code or of a log, the decisive one first, then the advisories that the
    log calls to mind."""
    plain = explanation.to_json(explanations, advisories)
    return Report(_parts(explanations, advisories), plain)


def _parts(explanations: Sequence[Explanation], advisories: Sequence[Advisory]) -> Iterator[Part]:
    if not explanations and not advisories:
        yield Paragraph("no failure in this text")
    found = [(f"{each.code}  {each.title}", tuple(_texts(each))) for each in explanations]
    known = [
        (f"Advisory {each.id}: {each.effect.value}", tuple(_advised(each))) for each in advisories
    ]
    # An advisory says more than that no rule knows the failure.
    if explanations and explanations[0].code == UNCLASSIFIED:
        ordered = known + found
    else:
        ordered = found + known
    for title, texts in ordered:
        yield Paragraph(title, Tone.STRONG)
        yield Labelled(texts)


def _advised(advisory: Advisory) -> Iterator[tuple[str, str]]:
    yield "what", advisory.what
    if advisory.when:
        yield "seen", advisory.when
    yield "where", f"Triton {advisory.triton} on {', '.join(advisory.targets)}"
    if advisory.packages:
        yield "package", "; ".join(advisory.packages)
    yield "remedy", advisory.remedy
    yield "since", advisory.reported.isoformat()
    for link in advisory.sources:
        yield "see", link


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
