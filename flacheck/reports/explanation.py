"""The report of `flacheck explain`: the failure, its cause and its remedy."""

from collections.abc import Iterator, Sequence

from flacheck.evidence.analysis.order import count_noun
from flacheck.reports.document import Labelled, Paragraph, Part, Report, Tone
from flacheck.rules import UNCLASSIFIED, explanation
from flacheck.rules.explanation import Explanation, UnexplainedErrors
from flacheck.tables.advisories import Advisory

# The labels of links and of commands to paste.
_UNBROKEN = ("see", "next")


def report(
    explanations: Sequence[Explanation],
    advisories: Sequence[Advisory] = (),
    unexplained_errors: UnexplainedErrors | None = None,
) -> Report:
    """Return the explanations of a code or log, the decisive first, and matching advisories."""
    plain = explanation.to_json(explanations, advisories, unexplained_errors)
    parts = [*_parts(explanations, advisories)]
    if unexplained_errors is not None:
        errors = count_noun(unexplained_errors.count, "error")
        parts.append(Paragraph(f"{errors} without a specific rule", Tone.DOUBT))
        first = (f"line {unexplained_errors.line}", unexplained_errors.excerpt)
        parts.append(Labelled((first,)))
    return Report(parts, plain)


def _parts(explanations: Sequence[Explanation], advisories: Sequence[Advisory]) -> Iterator[Part]:
    if not explanations and not advisories:
        yield Paragraph("no failure in this text")
    explanation_rows = []
    for each in explanations:
        explanation_rows.append((f"{each.code}  {each.title}", tuple(_texts(each))))
    advisory_rows = []
    for advisory in advisories:
        title = f"Advisory {advisory.id}: {advisory.effect.value}"
        advisory_rows.append((title, tuple(_advisory_texts(advisory))))
    # An advisory explains more than an unclassified failure.
    if explanations and explanations[0].code == UNCLASSIFIED:
        rows = advisory_rows + explanation_rows
    else:
        rows = explanation_rows + advisory_rows
    for title, texts in rows:
        yield Paragraph(title, Tone.STRONG)
        yield Labelled(texts, _UNBROKEN)


def _advisory_texts(advisory: Advisory) -> Iterator[tuple[str, str]]:
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
    if each.file:
        yield "file", each.file
    if each.line:
        yield f"line {each.line}", each.excerpt
        yield each.confidence, each.why
    elif each.why:
        yield "shows", each.why
    if each.log:
        facts = [f"{name} {value}" for name, value in each.log.items()]
        yield "log", ", ".join(facts)
    yield "cause", each.cause
    yield "remedy", each.remedy
    if each.bad:
        yield "fails", ", ".join(each.bad)
    if each.good:
        yield "works", ", ".join(each.good)
    for link in each.links:
        yield "see", link
    if each.lacks:
        yield "lacks", ", ".join(each.lacks)
    for command in each.next:
        yield "next", command
