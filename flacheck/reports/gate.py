"""The report of a gate: the pins, the releases that they allow, and what is wrong with which."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from flacheck.analysis.groups import SignatureGroup
from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.order import by_target, count_noun, kernel_name, short, some
from flacheck.capabilities.gate.admitted import Conflict
from flacheck.capabilities.gate.compilers import TRITON
from flacheck.capabilities.gate.pinned import Pin, PinChange
from flacheck.capabilities.gate.result import (
    OPEN,
    Gate,
    JudgedRelease,
    JudgedWaiver,
    ReleaseState,
    WaiverUse,
)
from flacheck.reports import document, phrases
from flacheck.reports.document import Part, Tone, Words, row
from flacheck.reports.phrases import items
from flacheck.rules import RULES

# In the order in which the headline counts them.
_TONES = {
    ReleaseState.GOOD: Tone.GOOD,
    ReleaseState.ADVISED: Tone.DOUBT,
    ReleaseState.PARTIAL: Tone.DOUBT,
    ReleaseState.NO_RECORD: Tone.DOUBT,
    ReleaseState.BAD: Tone.BAD,
}
# How the headline calls a state that is no adjective.
_WORDS = {ReleaseState.NO_RECORD: "without a record"}


def report(result: Gate, command: str, suggest: bool, strict: bool) -> document.Report:
    """What a gate found. `command` is the one that was typed, for those that may come next;
    `suggest` asks for the changes to make, which JSON holds anyhow."""
    parts = _parts(result, command, suggest, strict)
    return document.Report(parts, result.to_json(), _annotations(result, strict))


def _parts(result: Gate, command: str, suggest: bool, strict: bool) -> Iterator[Part]:
    tone = Tone.GOOD
    if result.of(ReleaseState.BAD) or result.conflicts:
        tone = Tone.BAD
    elif result.unproven:
        tone = Tone.DOUBT
    yield document.Title("flacheck gate", _headline(result), tone, _judged_by(result))
    pins = (row(pin.said, Words(pin.where, Tone.FAINT)) for pin in result.pins)
    yield document.Table(("pin", "in"), tuple(pins))
    if result.versions:
        rows = tuple(_release(result, release) for release in result.versions)
        names: tuple[str, ...] = (result.compiler.spoken,)
        if result.compiler is TRITON:
            names = (result.compiler.spoken, "torch")
        yield document.Table((*names, "state", ""), rows)
    yield from items("Contradictions", map(_conflict, result.conflicts), Tone.BAD)
    yield from phrases.failures(_failures(result))
    advised = group_by_key(
        (said, each.triton) for each in result.versions for said in each.advisories
    )
    lines = [f"{', '.join(releases)}: {said}" for said, releases in advised.items()]
    yield from items("Advisories", lines, Tone.DOUBT)
    waived = result.waived
    yield from items("Waivers", [_waiver(each) for each in waived if not each.is_finding])
    to_go = [_waiver(each) for each in waived if each.is_finding]
    yield from items("Waivers that have to go", to_go, Tone.BAD)
    if result.baseline:
        yield from items("Baseline", result.baseline.notes, Tone.DOUBT)
    yield from phrases.untested(result.untested)
    yield from items("Known good", result.known_good, Tone.GOOD, code=True)
    if suggest:
        yield from items("Suggested", _suggested(result, strict), Tone.GOOD)
    yield from _next(result, command, suggest, strict)


def _judged_by(result: Gate) -> str:
    """Which questions decided; several that were not chosen are named one by one."""
    said = f"judged by {result.about}"
    if result.baseline:
        said += f" and {result.baseline.file}"
    if result.questions and result.questions != (result.about,):
        said += f": {'; '.join(some(result.questions, phrases.NAMED))}"
    return said


def _headline(result: Gate) -> str:
    """One line with what came out."""
    counts = [(len(result.of(state)), _WORDS.get(state, state.value)) for state in _TONES]
    said = ", ".join(f"{count} {word}" for count, word in counts if count) or "none"
    releases = count_noun(len(result.versions), f"{result.compiler.spoken} release")
    line = f"Your pins allow {releases}: {said}"
    if result.conflicts:
        line += f" · {count_noun(len(result.conflicts), 'contradiction')}"
    return line


def _release(result: Gate, release: JudgedRelease) -> tuple[Words, ...]:
    """An allowed release, with what there is to say of it in one line."""
    about = f"{count_noun(release.cells, 'cell')} on {', '.join(release.targets)}"
    if release.state is ReleaseState.BAD:
        kernels = some([kernel_name(kernel) for kernel in release.kernels], phrases.NAMED)
        about = f"{', '.join(release.codes)}: {', '.join(kernels)}"
    elif release.state in OPEN:
        about = release.why
    else:
        about += "".join(
            f", {count} {word}"
            for count, word in (
                (release.waived, "waived"),
                (release.known, "known from the baseline"),
                (release.unknown, "without a verdict"),
                (release.untested, "not tested"),
            )
            if count
        )
    state = Words(release.state.value, _TONES[release.state])
    if result.compiler is not TRITON:
        return row(release.triton, state, about)
    return row(release.triton, ", ".join(release.torch) or "–", state, about)


def _conflict(conflict: Conflict) -> str:
    """Why pins contradict each other, and in which extra or group if the files do not say it."""
    if conflict.installation in {pin.file for pin in conflict.pins}:
        return conflict.reason
    return f"{conflict.installation}: {conflict.reason}"


def _failures(result: Gate) -> list[SignatureGroup]:
    """Why allowed releases are bad: each signature once for all of them, by code."""
    groups = group_by_key(
        ((group.code, group.signature), group)
        for release in result.of(ReleaseState.BAD)
        for group in release.failures
    )
    return sorted(map(_merged, groups.values()), key=lambda group: group.code)


def _merged(groups: Sequence[SignatureGroup]) -> SignatureGroup:
    toolchains = chain.from_iterable(group.toolchains for group in groups)
    targets = set[str]().union(*(group.targets for group in groups))
    kernels = set[str]().union(*(group.kernels for group in groups))
    return replace(
        groups[0],
        count=sum(group.count for group in groups),
        toolchains=tuple(dict.fromkeys(toolchains)),
        targets=tuple(sorted(targets, key=by_target)),
        kernels=tuple(sorted(kernels)),
    )


def _waiver(waived: JudgedWaiver) -> str:
    """A waiver and what became of it."""
    entry = waived.waiver
    until = entry.expires and f" until {entry.expires}"
    said = {
        WaiverUse.ACTIVE: f"lets {count_noun(waived.cells, 'failing cell')} pass{until or ''}",
        WaiverUse.EXPIRED: f"expired on {entry.expires}: renew it or mend what fails",
        WaiverUse.MENDED: "is no longer needed, for what it waives compiles again: remove it",
        WaiverUse.UNUSED: "waives nothing that was tried",
    }
    line = f"{entry.about} {said[waived.use]} ({entry.reason})"
    if waived.renamed:
        line += f"; its signature is {' and '.join(waived.renamed)} today: write that"
    return line


def _suggested(result: Gate, strict: bool) -> Iterator[str]:
    """The changes, what they leave untested, and where none helps."""
    yield from map(_change, result.suggest)
    if result.suggest and not strict and result.of(*OPEN):
        yield (
            "releases without a complete record stay allowed; --strict allows only known good ones"
        )
    for name in result.helpless:
        yield f"{name}: no change of its pins passes: no release that fits is known good"


def _change(change: PinChange) -> str:
    """What to write instead of what, and where."""
    line = f"{change.pin.where}: {change.pin.said} → {change.pin.name}{change.to}"
    if change.pin.obstacle:
        line += f"; --fix cannot write it: {change.pin.obstacle}"
    return line


def _next(result: Gate, command: str, suggest: bool, strict: bool) -> Iterator[Part]:
    does = {}
    if result.suggest and not suggest:
        does["--suggest"] = "Show the narrowest change that passes; --fix writes it."
    if result.unproven or (strict and result.of(*OPEN)):
        does["--scan"] = "Compile for the releases that have no complete record."
    if does:
        yield document.Heading("Next")
    for flag, note in does.items():
        yield document.Item(f"{command} {flag}", notes=(note,), code=True)


def _annotations(result: Gate, strict: bool) -> Iterator[document.Annotation]:
    """Contradictions, failures (one annotation a signature: GitHub shows ten of a kind),
    advisories, releases without a complete record, and waivers."""
    for conflict in result.conflicts:
        for pin in conflict.pins:
            yield _at(pin, "error", "pins contradict each other", _conflict(conflict))
    for group in _failures(result):
        text = f"{result.compiler.spoken}: {phrases.where(group)}\n{group.line}"
        if group.code in RULES:
            text += f"\n{RULES[group.code].cause} {RULES[group.code].remedy}"
        failing = [short(toolchain) for toolchain in group.toolchains]
        yield from _pinned(result, failing, "error", phrases.title_of(group.code), text)
    advised = ((said, each.triton) for each in result.versions for said in each.advisories)
    for advisory, releases in group_by_key(advised).items():
        said = f"{result.compiler.spoken} {', '.join(releases)}: {advisory}"
        yield from _pinned(result, releases, "warning", "advisory", said)
    level = "notice"
    if strict:
        level = "warning"
    for state in OPEN:
        unproven = ((each.why, each.triton) for each in result.of(state))
        for why, releases in group_by_key(unproven).items():
            named = f"{result.compiler.spoken} {', '.join(releases)}"
            said = f"allows {named}, which is not known to work: {why}"
            yield from _pinned(result, releases, level, state.value, said)
    for waived in result.waived:
        level = "notice"
        if waived.is_finding:
            level = "error"
        yield document.Annotation(level, "waiver", _waiver(waived))
    for change in result.suggest:
        yield _at(change.pin, "notice", "suggestion", _change(change))
    said = f"{_headline(result)} ({_judged_by(result)})"
    yield document.Annotation("notice", "flacheck gate", said)


def _pinned(
    result: Gate, releases: Container[str], level: str, title: str, text: str
) -> Iterator[document.Annotation]:
    """An annotation at each pin that admits one of the releases."""
    pins: dict[Pin, None] = {}
    for admission in result.admissions:
        if any(triton in releases for triton in admission.triton):
            installation = admission.installation
            pinned = installation.of(result.compiler.distribution)
            # Where Triton is not pinned it is torch that brings it.
            pins.update(dict.fromkeys(pinned or installation.of("torch")))
    for pin in pins:
        yield _at(pin, level, title, text)


def _at(pin: Pin, level: str, title: str, text: str) -> document.Annotation:
    # What has no line (a lock file's whole, the live environment) is shown at no file either.
    if not pin.line:
        return document.Annotation(level, title, text)
    return document.Annotation(level, title, text, pin.file, pin.line)
