"""The outcome in Markdown, for an issue, a pull request or a job's summary."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.gate.formats import wording
from flacheck.gate.result import GateResult
from flacheck.reports.base import Page


def render(outcome: GateResult, page: Page, suggest: bool, strict: bool) -> Iterator[str]:
    """A heading, the admitted releases as a table, then lists."""
    yield f"## flacheck gate\n\n{wording.headline(outcome)} ({outcome.about})\n"
    if outcome.versions:
        yield "\n| Triton | torch | state | |\n|---|---|---|---|\n"
    for version in outcome.versions:
        cells = (
            version.triton,
            ", ".join(version.torch) or "–",
            version.state.value,
            wording.about(version),
        )
        yield f"| {' | '.join(map(_cell, cells))} |\n"
    yield from _list("Pins", [f"`{pin.said}` ({pin.where})" for pin in outcome.pins])
    yield from _list("Contradictions", list(map(wording.conflict_line, outcome.conflicts)))
    yield from _list("Failures", [_failure(failure) for failure in wording.failures(outcome)])
    yield from _list(
        "Compiles, but",
        [f"{v.triton}: {said}" for v in outcome.versions for said in v.standing.advisories],
    )
    yield from _list("Waivers", [wording.waiver_line(waived) for waived in outcome.waived])
    yield from _list("Known good", [f"`{requirement}`" for requirement in outcome.known_good])
    yield from _list("Suggested", wording.suggested(outcome, strict))


def _failure(failure: wording.Failure) -> str:
    told = f"{_code(failure.line)}. {failure.cause} {failure.remedy}"
    return f"**{failure.code}** {failure.title} ({failure.where}): {told}"


def _code(text: str) -> str:
    """Code that may hold a backtick, as assertions do."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _list(heading: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"\n**{heading}**\n\n"
    yield from (f"- {line}\n" for line in lines)
