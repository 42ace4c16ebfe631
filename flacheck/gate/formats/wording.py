"""How an outcome is said, in every format for people alike."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from flacheck.analysis.known_good import grouped
from flacheck.analysis.order import by_target, kernel_name, some
from flacheck.gate.admitted import Conflict
from flacheck.gate.pinned import Pin
from flacheck.gate.result import AdmittedRelease, GateResult, JudgedWaiver, WaiverUse
from flacheck.gate.states import ReleaseState
from flacheck.gate.suggest import PinChange
from flacheck.rules import RULES

NAMED = 4


@dataclass(frozen=True)
class Failure:
    """A signature on all the admitted releases that fail with it."""

    code: str
    line: str
    releases: tuple[str, ...]
    targets: tuple[str, ...]
    kernels: tuple[str, ...]

    @property
    def title(self) -> str:
        return RULES[self.code].title if self.code in RULES else ""

    @property
    def cause(self) -> str:
        return RULES[self.code].cause if self.code in RULES else ""

    @property
    def remedy(self) -> str:
        return RULES[self.code].remedy if self.code in RULES else ""

    @property
    def where(self) -> str:
        """Releases, targets and kernels in one line."""
        kernels = some(
            list(dict.fromkeys(map(kernel_name, self.kernels))), NAMED, "{} more kernels"
        )
        return " · ".join((", ".join(self.releases), ", ".join(self.targets), ", ".join(kernels)))


def failures(outcome: GateResult) -> list[Failure]:
    """Why admitted releases are bad, by code."""
    found = grouped(
        ((group.code, group.signature), (version.triton, group))
        for version in outcome.of(ReleaseState.BAD)
        for group in version.standing.failures
    )
    made = [
        Failure(
            code,
            groups[0][1].line,
            tuple(dict.fromkeys(triton for triton, _ in groups)),
            tuple(
                sorted({target for _, group in groups for target in group.targets}, key=by_target)
            ),
            tuple(sorted({kernel for _, group in groups for kernel in group.kernels})),
        )
        for (code, _), groups in found.items()
    ]
    return sorted(made, key=lambda failure: failure.code)


def headline(outcome: GateResult) -> str:
    """One line with what came out."""
    counts = [
        (len(outcome.of(state)), state.value)
        for state in (
            ReleaseState.GOOD,
            ReleaseState.ADVISED,
            ReleaseState.UNTESTED,
            ReleaseState.BAD,
        )
    ]
    said = ", ".join(f"{count} {word}" for count, word in counts if count) or "none"
    number = len(outcome.conflicts)
    conflicts = f" · {number} contradiction{'s' * (number != 1)}" if number else ""
    return f"Triton releases admitted: {said}{conflicts}"


def about(version: AdmittedRelease) -> str:
    """What there is to say of an admitted release in one line."""
    standing = version.standing
    if version.state is ReleaseState.BAD:
        return f"{', '.join(standing.codes)}: {', '.join(some([kernel_name(k) for k in standing.kernels], NAMED))}"
    if version.state is ReleaseState.UNTESTED:
        return standing.why
    cells = f"{standing.cells} cell{'s' * (standing.cells != 1)} on {', '.join(standing.targets)}"
    return cells + (f", {standing.waived} waived" if standing.waived else "")


def conflict_line(conflict: Conflict) -> str:
    """Why pins contradict each other, and in which extra or group where the files alone do not say
    it.
    """
    whole = conflict.installation in {pin.file for pin in conflict.pins}
    return conflict.reason if whole else f"{conflict.installation}: {conflict.reason}"


def waiver_line(waived: JudgedWaiver) -> str:
    """A waiver and what became of it."""
    entry = waived.waiver
    ends = f" until {entry.expires}" if entry.expires else ""
    said = {
        WaiverUse.ACTIVE: f"lets {waived.cells} failing cell{'s' * (waived.cells != 1)} pass{ends}",
        WaiverUse.EXPIRED: f"expired on {entry.expires}: renew it or mend what fails",
        WaiverUse.MENDED: "is no longer needed, for what it waives compiles again: remove it",
        WaiverUse.UNUSED: "waives nothing that was tried",
    }
    return f"{entry.about} {said[waived.use]} ({entry.reason})"


def change_line(change: PinChange) -> str:
    """What to write instead of what, and where."""
    note = f"; not to be written by --fix: {change.pin.obstacle}" if change.pin.obstacle else ""
    return f"{change.pin.where}: {change.pin.said} → {change.pin.name}{change.to}{note}"


def culprits(outcome: GateResult, releases: Container[str]) -> list[Pin]:
    """The pins by which any of the releases is admitted: those of Triton, else those of torch."""
    found: dict[Pin, None] = {}
    for admission in outcome.admissions:
        if any(triton in releases for triton in admission.triton):
            installation = admission.installation
            found.update(dict.fromkeys(installation.of("triton") or installation.of("torch")))
    return list(found)


def suggested(outcome: GateResult, strict: bool) -> list[str]:
    """The changes, what they leave untested, and where none helps."""
    lines = list(map(change_line, outcome.suggest))
    if outcome.suggest and not strict and outcome.of(ReleaseState.UNTESTED):
        lines.append("what is untested stays admitted; with --strict only what is good does")
    helpless = (
        f"{name}: no change of its pins passes: no release that fits is known good"
        for name in outcome.helpless
    )
    return [*lines, *helpless]


def advice(outcome: GateResult, suggest: bool, strict: bool) -> Sequence[str]:
    """What to type next."""
    said = []
    if outcome.suggest and not suggest:
        said.append(
            "the same with --suggest shows the narrowest change that passes, with --fix writes it"
        )
    if outcome.unproven or (strict and outcome.of(ReleaseState.UNTESTED)):
        said.append("the same with --scan compiles for the releases that have no verdict")
    return said
