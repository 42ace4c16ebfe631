"""The outcome for a terminal: the pins, the releases they admit, and what is wrong with which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from flacheck.gate.formats import wording
from flacheck.gate.result import GateResult, JudgedWaiver
from flacheck.gate.states import ReleaseState
from flacheck.reports.base import Page
from flacheck.reports.drawing import heading, labelled, table, text_of

_STYLES = {
    ReleaseState.GOOD: "green",
    ReleaseState.BAD: "bold red",
    ReleaseState.UNTESTED: "yellow",
    ReleaseState.ADVISED: "yellow",
}


def render(outcome: GateResult, page: Page, suggest: bool, strict: bool) -> Iterator[str]:
    """Section after section; each is text for a page of that width."""
    between = ""
    for section in _sections(outcome, suggest, strict):
        text = text_of(section, page).rstrip("\n")
        if text:
            yield between + text + "\n"
            between = "\n"


def _sections(
    outcome: GateResult, suggest: bool, strict: bool
) -> Iterator[Iterable[RenderableType]]:
    yield _head(outcome)
    yield _pins(outcome)
    yield _releases(outcome)
    yield _list("Contradictions", list(map(wording.conflict_line, outcome.conflicts)), "bold red")
    yield _failures(outcome)
    advisories = [
        f"{v.triton} compiles, but {said}"
        for v in outcome.versions
        for said in v.standing.advisories
    ]
    yield _list("Advisories", list(dict.fromkeys(advisories)), "yellow")
    yield _waivers(outcome.waived)
    yield _list("Known good", outcome.known_good, "green")
    if suggest:
        yield _list("Suggested", wording.suggested(outcome, strict), "green")
    yield _list("Next", wording.advice(outcome, suggest, strict))


def _head(outcome: GateResult) -> Iterator[RenderableType]:
    bad = outcome.of(ReleaseState.BAD) or outcome.conflicts
    yield Text(
        wording.headline(outcome),
        style="bold red" if bad else "bold yellow" if outcome.unproven else "bold green",
    )
    yield Text(f"by {outcome.about}", style="dim")


def _pins(outcome: GateResult) -> Iterator[RenderableType]:
    rows = table("pin", "in")
    for pin in outcome.pins:
        rows.add_row(Text(pin.said), Text(pin.where, style="dim"))
    yield rows


def _releases(outcome: GateResult) -> Iterator[RenderableType]:
    if not outcome.versions:
        return
    rows = table("Triton", "torch", "", "")
    for version in outcome.versions:
        state = Text(version.state.value, style=_STYLES[version.state])
        rows.add_row(
            Text(version.triton),
            Text(", ".join(version.torch) or "–"),
            state,
            Text(wording.about(version)),
        )
    yield rows


def _failures(outcome: GateResult) -> Iterator[RenderableType]:
    found = wording.failures(outcome)
    if found:
        yield heading("Failures")
    told = set()
    for failure in found:
        if failure.code not in told:
            yield Text.assemble((failure.code, "bold red"), f" {failure.title}")
        yield Padding(Text(failure.line or "nothing was said"), (0, 0, 0, 2))
        yield Padding(Text(failure.where, style="dim"), (0, 0, 0, 4))
        if failure.code not in told and failure.cause:
            yield labelled("cause", failure.cause)
            yield labelled("remedy", failure.remedy)
        told.add(failure.code)


def _waivers(waived: Sequence[JudgedWaiver]) -> Iterator[RenderableType]:
    if waived:
        yield heading("Waivers")
    for entry in waived:
        yield Padding(
            Text(wording.waiver_line(entry), style="red" if entry.is_finding else ""), (0, 0, 0, 2)
        )


def _list(title: str, lines: Sequence[str], style: str = "") -> Iterator[RenderableType]:
    if lines:
        yield heading(title)
    yield from (Padding(Text(line, style=style), (0, 0, 0, 2)) for line in lines)
