"""GitHub workflow commands: annotations at the lines that hold the pins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flacheck.analysis.known_good import grouped
from flacheck.gate.formats import wording
from flacheck.gate.pinned import Pin
from flacheck.gate.result import GateResult
from flacheck.gate.states import ReleaseState
from flacheck.reports.base import Page
from flacheck.reports.github import command


def render(outcome: GateResult, page: Page, suggest: bool, strict: bool) -> Iterator[str]:
    """Contradictions, failures (one annotation a signature: GitHub shows ten of a kind) and waivers
    that have to go.
    """
    for conflict in outcome.conflicts:
        said = wording.conflict_line(conflict)
        yield from (_at(pin, "error", "pins contradict each other", said) for pin in conflict.pins)
    for failure in wording.failures(outcome):
        text = f"Triton {failure.where}\n{failure.line}\n{failure.cause} {failure.remedy}".rstrip()
        yield from _pinned(
            outcome, failure.releases, "error", f"{failure.code} {failure.title}".rstrip(), text
        )
    yield from _advised(outcome)
    yield from _untested(outcome, "warning" if strict else "notice")
    for waived in outcome.waived:
        yield command(
            "error" if waived.is_finding else "notice", "waiver", wording.waiver_line(waived)
        )
    for change in outcome.suggest:
        yield _at(change.pin, "notice", "suggestion", wording.change_line(change))
    yield command("notice", "flacheck gate", f"{wording.headline(outcome)} (by {outcome.about})")


def _advised(outcome: GateResult) -> Iterator[str]:
    said = grouped(
        (text, version.triton)
        for version in outcome.versions
        for text in version.standing.advisories
    )
    for text, releases in said.items():
        yield from _pinned(
            outcome, releases, "warning", "compiles, but", f"Triton {', '.join(releases)}: {text}"
        )


def _untested(outcome: GateResult, level: str) -> Iterator[str]:
    reasons = grouped(
        (version.standing.why, version.triton) for version in outcome.of(ReleaseState.UNTESTED)
    )
    for why, releases in reasons.items():
        said = f"admits Triton {', '.join(releases)}, which nobody tested: {why}"
        yield from _pinned(outcome, releases, level, "untested", said)


def _pinned(
    outcome: GateResult, releases: Sequence[str], level: str, title: str, text: str
) -> Iterator[str]:
    """An annotation at each pin that admits one of the releases."""
    yield from (_at(pin, level, title, text) for pin in wording.culprits(outcome, releases))


def _at(pin: Pin, level: str, title: str, text: str) -> str:
    return command(level, title, text, pin.file if pin.line else None, pin.line)
