"""The report of a gate: the pins, the releases that they allow, and what is wrong with which."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from flacheck.analysis.groups import SignatureGroup
from flacheck.analysis.known_good import grouped
from flacheck.analysis.order import by_target, kernel_name, some
from flacheck.gate.admitted import Conflict
from flacheck.gate.pinned import Pin
from flacheck.gate.result import GateResult, JudgedWaiver, WaiverUse
from flacheck.gate.states import JudgedRelease, ReleaseState
from flacheck.gate.suggest import PinChange
from flacheck.reports import document
from flacheck.reports.document import Part, Tone, Words, row
from flacheck.reports.phrases import counted, explained, failure, items, title_of, where
from flacheck.rules import RULES

# Kernels that a line of the table names.
_NAMED = 4
_TONES = {
    ReleaseState.GOOD: Tone.GOOD,
    ReleaseState.BAD: Tone.BAD,
    ReleaseState.UNTESTED: Tone.DOUBT,
    ReleaseState.ADVISED: Tone.DOUBT,
}


@dataclass(frozen=True)
class AdmittedFailure:
    """A signature on all the admitted releases that fail with it."""

    code: str
    line: str
    releases: tuple[str, ...]
    targets: tuple[str, ...]
    kernels: tuple[str, ...]

    @property
    def where(self) -> str:
        """Releases, targets and kernels in one line."""
        return where(self.releases, self.targets, self.kernels)


def report(
    result: GateResult, command: str, suggest: bool = False, strict: bool = False
) -> document.Report:
    """What a gate found. `command` is the one that was typed, for those that may come next;
    `suggest` asks for the changes to make, and JSON holds them anyhow.
    """
    parts = _parts(result, command, suggest, strict)
    return document.Report(parts, result.to_json(), _annotations(result, strict))


def _parts(result: GateResult, command: str, suggest: bool, strict: bool) -> Iterator[Part]:
    yield document.Title(
        "flacheck gate", _headline(result), _tone(result), f"judged by {result.about}"
    )
    pins = (row(pin.said, Words(pin.where, Tone.FAINT)) for pin in result.pins)
    yield document.Table(("pin", "in"), tuple(pins))
    if result.versions:
        yield document.Table(
            ("Triton", "torch", "state", ""), tuple(map(_release, result.versions))
        )
    yield from items("Contradictions", map(_conflict, result.conflicts), Tone.BAD)
    yield from _failures(result)
    yield from items("Advisories", dict.fromkeys(_advisories(result)), Tone.DOUBT)
    yield from _waivers(result.waived)
    yield from items("Known good", result.known_good, Tone.GOOD, code=True)
    if suggest:
        yield from items("Suggested", _suggested(result, strict), Tone.GOOD)
    yield from _next(result, command, suggest, strict)


def _headline(result: GateResult) -> str:
    """One line with what came out."""
    order = (ReleaseState.GOOD, ReleaseState.ADVISED, ReleaseState.UNTESTED, ReleaseState.BAD)
    counts = [(len(result.of(state)), state.value) for state in order]
    said = ", ".join(f"{count} {word}" for count, word in counts if count) or "none"
    line = f"Your pins allow {counted(len(result.versions), 'Triton release')}: {said}"
    if result.conflicts:
        line += f" · {counted(len(result.conflicts), 'contradiction')}"
    return line


def _tone(result: GateResult) -> Tone:
    if result.of(ReleaseState.BAD) or result.conflicts:
        return Tone.BAD
    if result.unproven:
        return Tone.DOUBT
    return Tone.GOOD


def _release(version: JudgedRelease) -> tuple[Words, ...]:
    state = Words(version.state.value, _TONES[version.state])
    return row(version.triton, ", ".join(version.torch) or "–", state, _about(version))


def _about(version: JudgedRelease) -> str:
    """What there is to say of an admitted release in one line."""
    if version.state is ReleaseState.BAD:
        kernels = some([kernel_name(kernel) for kernel in version.kernels], _NAMED)
        return f"{', '.join(version.codes)}: {', '.join(kernels)}"
    if version.state is ReleaseState.UNTESTED:
        return version.why
    cells = f"{counted(version.cells, 'cell')} on {', '.join(version.targets)}"
    return f"{cells}, {version.waived} waived" if version.waived else cells


def _conflict(conflict: Conflict) -> str:
    """Why pins contradict each other, and in which extra or group where the files alone do not say
    it.
    """
    if conflict.installation in {pin.file for pin in conflict.pins}:
        return conflict.reason
    return f"{conflict.installation}: {conflict.reason}"


def _failures(result: GateResult) -> Iterator[Part]:
    by_code = grouped((found.code, found) for found in _admitted_failures(result))
    if by_code:
        yield document.Heading("Failures")
    for code, failures in by_code.items():
        yield document.Paragraph(title_of(code), Tone.BAD)
        for found in failures:
            yield failure(found.line, found.where)
        yield from explained(code)


def _admitted_failures(result: GateResult) -> list[AdmittedFailure]:
    """Why admitted releases are bad, by code."""
    groups = grouped(
        ((group.code, group.signature), (version.triton, group))
        for version in result.of(ReleaseState.BAD)
        for group in version.failures
    )
    made = [_admitted_failure(code, pairs) for (code, _), pairs in groups.items()]
    return sorted(made, key=lambda failure: failure.code)


def _admitted_failure(code: str, pairs: Sequence[tuple[str, SignatureGroup]]) -> AdmittedFailure:
    groups = [group for _, group in pairs]
    targets = {target for group in groups for target in group.targets}
    kernels = {kernel for group in groups for kernel in group.kernels}
    return AdmittedFailure(
        code,
        groups[0].line,
        tuple(dict.fromkeys(triton for triton, _ in pairs)),
        tuple(sorted(targets, key=by_target)),
        tuple(sorted(kernels)),
    )


def _advisories(result: GateResult) -> Iterator[str]:
    for version in result.versions:
        for advisory in version.advisories:
            yield f"{version.triton} compiles, but {advisory}"


def _waivers(waived: Sequence[JudgedWaiver]) -> Iterator[Part]:
    if waived:
        yield document.Heading("Waivers")
    for entry in waived:
        yield document.Item(_waiver(entry), Tone.BAD if entry.is_finding else Tone.PLAIN)


def _waiver(waived: JudgedWaiver) -> str:
    """A waiver and what became of it."""
    entry = waived.waiver
    ends = f" until {entry.expires}" if entry.expires else ""
    said = {
        WaiverUse.ACTIVE: f"lets {counted(waived.cells, 'failing cell')} pass{ends}",
        WaiverUse.EXPIRED: f"expired on {entry.expires}: renew it or mend what fails",
        WaiverUse.MENDED: "is no longer needed, for what it waives compiles again: remove it",
        WaiverUse.UNUSED: "waives nothing that was tried",
    }
    return f"{entry.about} {said[waived.use]} ({entry.reason})"


def _suggested(result: GateResult, strict: bool) -> Iterator[str]:
    """The changes, what they leave untested, and where none helps."""
    for change in result.suggest:
        yield _change(change)
    if result.suggest and not strict and result.of(ReleaseState.UNTESTED):
        yield "untested releases stay allowed; with --strict only known good releases do"
    for name in result.helpless:
        yield f"{name}: no change of its pins passes: no release that fits is known good"


def _change(change: PinChange) -> str:
    """What to write instead of what, and where."""
    line = f"{change.pin.where}: {change.pin.said} → {change.pin.name}{change.to}"
    if change.pin.obstacle:
        line += f"; --fix cannot write it: {change.pin.obstacle}"
    return line


def _next(result: GateResult, command: str, suggest: bool, strict: bool) -> Iterator[Part]:
    changes = bool(result.suggest) and not suggest
    scan = bool(result.unproven) or (strict and bool(result.of(ReleaseState.UNTESTED)))
    if changes or scan:
        yield document.Heading("Next")
    if changes:
        note = "shows the narrowest change that passes; --fix writes it"
        yield document.Item(f"{command} --suggest", notes=(note,), code=True)
    if scan:
        note = "compiles for the releases that have no verdict"
        yield document.Item(f"{command} --scan", notes=(note,), code=True)


# For a workflow: annotations at the lines that hold the pins


def _annotations(result: GateResult, strict: bool) -> Iterator[document.Annotation]:
    """Contradictions, failures (one annotation a signature: GitHub shows ten of a kind), advisories,
    untested releases and waivers.
    """
    for conflict in result.conflicts:
        for pin in conflict.pins:
            yield _at(pin, "error", "pins contradict each other", _conflict(conflict))
    for found in _admitted_failures(result):
        text = f"Triton {found.where}\n{found.line}\n{_remedy(found.code)}".rstrip()
        yield from _pinned(result, found.releases, "error", title_of(found.code), text)
    yield from _advised(result)
    yield from _untested(result, "warning" if strict else "notice")
    for waived in result.waived:
        level = "error" if waived.is_finding else "notice"
        yield document.Annotation(level, "waiver", _waiver(waived))
    for change in result.suggest:
        yield _at(change.pin, "notice", "suggestion", _change(change))
    said = f"{_headline(result)} (judged by {result.about})"
    yield document.Annotation("notice", "flacheck gate", said)


def _remedy(code: str) -> str:
    rule = RULES.get(code)
    return f"{rule.cause} {rule.remedy}" if rule else ""


def _advised(result: GateResult) -> Iterator[document.Annotation]:
    advisories = grouped(
        (text, version.triton) for version in result.versions for text in version.advisories
    )
    for text, releases in advisories.items():
        said = f"Triton {', '.join(releases)}: {text}"
        yield from _pinned(result, releases, "warning", "compiles, but", said)


def _untested(result: GateResult, level: str) -> Iterator[document.Annotation]:
    reasons = grouped((version.why, version.triton) for version in result.of(ReleaseState.UNTESTED))
    for why, releases in reasons.items():
        said = f"allows Triton {', '.join(releases)}, which nobody tested: {why}"
        yield from _pinned(result, releases, level, "untested", said)


def _pinned(
    result: GateResult, releases: Container[str], level: str, title: str, text: str
) -> Iterator[document.Annotation]:
    """An annotation at each pin that admits one of the releases."""
    for pin in _culprits(result, releases):
        yield _at(pin, level, title, text)


def _culprits(result: GateResult, releases: Container[str]) -> dict[Pin, None]:
    """The pins by which any of the releases is admitted: those of Triton, else those of torch."""
    pins: dict[Pin, None] = {}
    for admission in result.admissions:
        if any(triton in releases for triton in admission.triton):
            installation = admission.installation
            pins.update(dict.fromkeys(installation.of("triton") or installation.of("torch")))
    return pins


def _at(pin: Pin, level: str, title: str, text: str) -> document.Annotation:
    # What has no line (a lock file's whole, the live environment) is shown at no file either.
    if not pin.line:
        return document.Annotation(level, title, text)
    return document.Annotation(level, title, text, pin.file, pin.line)
