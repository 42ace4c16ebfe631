"""The answer at the top of every report: verdict, points, recommendation."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.model.answer import Answer, VerdictWord
from flacheck.reports import phrases
from flacheck.reports.document import Item, Paragraph, Part, Title, Tone

TONES = {
    VerdictWord.YES: Tone.GOOD,
    VerdictWord.YES_BUT: Tone.DOUBT,
    VerdictWord.UNKNOWN: Tone.DOUBT,
    VerdictWord.NO: Tone.BAD,
}


def parts(subject: str, answer: Answer, about: str = "") -> Iterator[Part]:
    """Yield the answer; the details follow below."""
    yield Title(subject, f"{answer.answer}.", TONES[answer.verdict], about)
    for point in answer.points:
        yield Item(point.text, notes=(point.remedy,) if point.remedy else ())
    if answer.recommendation:
        yield Paragraph(f"Recommended: {answer.recommendation}", Tone.GOOD)


def next_commands(answer: Answer) -> Iterator[Part]:
    """Yield the commands to type next, at the end of a report."""
    yield from phrases.items("Next", answer.next, code=True)
