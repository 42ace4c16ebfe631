"""GitHub workflow commands: annotations at the lines that hold the pins."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.gate.formats import wording
from flacheck.gate.outcome import Outcome, Version
from flacheck.gate.pinned import Pin
from flacheck.gate.states import State
from flacheck.reports.base import Page
from flacheck.reports.github import command


def render(outcome: Outcome, page: Page, suggest: bool, strict: bool) -> Iterator[str]:
    """Contradictions and failing releases as errors, advisories and what is untested as warnings or notices."""
    for conflict in outcome.conflicts:
        for pin in conflict.pins:
            yield _at(pin, "error", "pins contradict each other", conflict.reason)
    for version in outcome.of(State.BAD):
        yield from _releases(outcome, version, "error", "fails under an admitted Triton", _failing(version))
    for version in outcome.of(State.ADVISED):
        said = "; ".join(version.standing.advisories)
        yield from _releases(outcome, version, "warning", "compiles, but", f"Triton {version.triton}: {said}")
    for version in outcome.of(State.UNTESTED):
        said = f"Triton {version.triton} is admitted and untested: {version.standing.why}"
        yield from _releases(outcome, version, "warning" if strict else "notice", "untested", said)
    for waived in outcome.waived:
        yield command("error" if waived.is_finding else "notice", "waiver", wording.waiver_line(waived))
    for change in outcome.suggest:
        yield _at(change.pin, "notice", "suggestion", wording.change_line(change))
    yield command("notice", "flacheck gate", wording.headline(outcome))


def _failing(version: Version) -> str:
    said = [f"Triton {version.triton}: {wording.about(version)}"]
    for group in version.standing.failures:
        said.append(f"{group.code} on {', '.join(group.targets)}: {group.line}")
    return "\n".join(said)


def _releases(outcome: Outcome, version: Version, level: str, title: str, text: str) -> Iterator[str]:
    yield from (_at(pin, level, title, text) for pin in wording.culprits(outcome, version))


def _at(pin: Pin, level: str, title: str, text: str) -> str:
    return command(level, title, text, pin.file if pin.line else None, pin.line)
