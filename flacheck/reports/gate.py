"""The report of a gate: the pins, the releases that they allow, and the faults of each."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from flacheck.capabilities.gate.admission import Conflict
from flacheck.capabilities.gate.compilers import TRITON
from flacheck.capabilities.gate.judged_pins import (
    OPEN,
    JudgedRelease,
    JudgedWaiver,
    ReleaseState,
    WaiverUse,
)
from flacheck.capabilities.gate.pins import Pin, PinChange
from flacheck.capabilities.gate.result import Gate
from flacheck.evidence.analysis.compiled_sizes import join_sizes
from flacheck.evidence.analysis.groups import SignatureGroup
from flacheck.evidence.analysis.order import by_target, count_noun, kernel_name, short, some
from flacheck.model.source_location import SourceLocation
from flacheck.reports import answer as answers
from flacheck.reports import document, phrases
from flacheck.reports.document import CaseOutcome, Part, Tone, Words, row
from flacheck.reports.phrases import items
from flacheck.rules import RULES

_TONES = {
    ReleaseState.GOOD: Tone.GOOD,
    ReleaseState.SCREENED: Tone.DOUBT,
    ReleaseState.PARTIAL: Tone.DOUBT,
    ReleaseState.NO_RECORD: Tone.DOUBT,
    ReleaseState.BAD: Tone.BAD,
}


def report(result: Gate, command: str, suggest: bool, strict: bool) -> document.Report:
    """Return the document of a gate.

    `command` is the user's command, for the next commands; `suggest` shows the changes to make,
    which JSON always contains.
    """
    return document.Report(
        _parts(result, command, suggest, strict),
        result.to_json(),
        _annotations(result, strict),
        _cases(result, strict),
        _pins(result),
    )


def _parts(result: Gate, command: str, suggest: bool, strict: bool) -> Iterator[Part]:
    yield from answers.parts("flacheck gate", result.in_words, _judged_by(result))
    if result.published is not None:
        allowed = {release.triton for release in result.versions}
        own = [triton for triton in result.published_releases if triton in allowed]
        on_record = ", ".join(own or result.published_releases)
        origin = result.published.origin
        yield document.Paragraph(f"Triton {on_record} by {origin}; --scan compiles here")
    pins = []
    for pin in result.pins:
        pins.append(row(pin.requirement, Words(pin.where, Tone.FAINT)))
    yield document.Table(("pin", "in"), tuple(pins))
    if result.versions:
        yield from _versions(result)
    yield from items("Contradictions", map(_conflict, result.conflicts), Tone.BAD)
    yield from phrases.failures(_failures(result))
    yield from phrases.list_package_failures(result.package_failures)
    lines = []
    for text, releases in _releases_by_advisory(result).items():
        lines.append(f"{', '.join(releases)}: {text}")
    yield from items("Advisories", lines, Tone.DOUBT)
    good_waivers, bad_waivers = [], []
    for judgement in result.judged_waivers:
        if judgement.is_finding:
            bad_waivers.append(waiver_item(judgement))
        else:
            good_waivers.append(waiver_item(judgement))
    yield from items("Waivers", good_waivers)
    yield from items("Waivers to remove", bad_waivers, Tone.BAD)
    if result.baseline:
        yield from items("Baseline", result.baseline.notes, Tone.DOUBT)
    yield from phrases.list_untested(result.untested)
    yield from items("Known good", result.known_good, Tone.GOOD, code=True)
    if suggest:
        yield from items("Suggested", _suggestions(result, strict), Tone.GOOD)
    yield from _next(result, command, suggest, strict)


def _versions(result: Gate) -> Iterator[Part]:
    rows = tuple(_release(result, release) for release in result.versions)
    names: tuple[str, ...] = (result.compiler.spoken,)
    if result.compiler is TRITON:
        names = (result.compiler.spoken, "torch")
    yield document.Table((*names, "state", ""), rows)
    sizes = phrases.name_sizes(join_sizes(each.sizes for each in result.versions))
    if sizes:
        yield document.Paragraph(sizes)


def _pins(result: Gate) -> Iterator[tuple[str, str]]:
    for requirement in result.known_good:
        yield "known good", requirement
    for change in result.suggest:
        yield f"change {change.pin.where} to", f"{change.pin.name}{change.to}"


def _cases(result: Gate, strict: bool) -> Iterator[document.Case]:
    """Yield a case for each allowed release and each contradiction."""
    for release in result.versions:
        outcome = CaseOutcome.PASSED
        if release.state is ReleaseState.BAD:
            outcome = CaseOutcome.FAILED
        elif release.state in OPEN:
            outcome = CaseOutcome.ERROR if strict else CaseOutcome.SKIPPED
        name = f"{result.compiler.spoken} {release.triton}"
        lines = [release.why, *(f"{each.code} {each.line}" for each in release.failures)]
        text = f"{release.state.value} {', '.join(release.codes)}".rstrip()
        details = "\n".join(filter(None, lines))
        yield document.Case("flacheck gate", "releases", name, outcome, text, details)
    for conflict in result.conflicts:
        text = _conflict(conflict)
        yield document.Case(
            "flacheck gate", "pins", conflict.installation, CaseOutcome.FAILED, text, text
        )


def _releases_by_advisory(result: Gate) -> dict[str, list[str]]:
    releases: dict[str, list[str]] = {}
    for each in result.versions:
        for text in each.advisories:
            releases.setdefault(text, []).append(each.triton)
    return releases


def _judged_by(result: Gate) -> str:
    """Return the source of the verdicts; default questions are named one by one."""
    text = f"judged by {result.about}"
    if result.baseline:
        text += f" and {result.baseline.file}"
    questions = [question for question in result.questions if question not in text]
    if questions:
        text += f": {'; '.join(some(questions, phrases.MAX_KERNELS))}"
    return text


def _release(result: Gate, release: JudgedRelease) -> tuple[Words, ...]:
    """Return an allowed release with its most important fact."""
    about = f"{count_noun(release.cells, 'cell')} on {', '.join(release.targets)}"
    if release.state is ReleaseState.BAD:
        kernels = some(list(map(kernel_name, release.kernels)), phrases.MAX_KERNELS)
        about = f"{', '.join(release.codes)}: {', '.join(kernels)}"
    elif release.state in OPEN:
        about = release.why
    else:
        counts = {
            "waived": release.waived_cells,
            "known from the baseline": release.known,
            "without a verdict": release.unknown,
            "not tested": release.untested,
        }
        for word, count in counts.items():
            if count:
                about += f", {count} {word}"
        if release.extent:
            about = f"{release.why} on {', '.join(release.targets)}"
    state = Words(release.standing.value, _TONES[release.standing])
    if release.state is ReleaseState.ADVISED:
        state = Words(f"{release.standing.value}, advised", Tone.DOUBT)
    if result.compiler is not TRITON:
        return row(release.triton, state, about)
    return row(release.triton, ", ".join(release.torch) or "–", state, about)


def _conflict(conflict: Conflict) -> str:
    """Return the contradiction of pins, with the extra or group if the files do not show it."""
    if conflict.installation in {pin.file for pin in conflict.pins}:
        return conflict.reason
    return f"{conflict.installation}: {conflict.reason}"


def _failures(result: Gate) -> list[SignatureGroup]:
    """Return the failures of bad releases by code: each signature once for all releases."""
    failures: list[SignatureGroup] = []
    for release in result.of(ReleaseState.BAD):
        failures += release.failures
    groups = phrases.group_by(failures, lambda group: (group.code, group.signature))
    return sorted(map(_merge, groups.values()), key=lambda group: group.code)


def _merge(groups: Sequence[SignatureGroup]) -> SignatureGroup:
    toolchains: dict[str, None] = {}
    targets, kernels = set[str](), set[str]()
    for group in groups:
        toolchains.update(dict.fromkeys(group.toolchains))
        targets.update(group.targets)
        kernels.update(group.kernels)
    return replace(
        groups[0],
        count=sum(group.count for group in groups),
        toolchains=tuple(toolchains),
        targets=tuple(sorted(targets, key=by_target)),
        kernels=tuple(sorted(kernels)),
    )


def waiver_item(judgement: JudgedWaiver) -> str:
    """Return a waiver and its outcome."""
    entry = judgement.waiver
    until = entry.expires and f" until {entry.expires}"
    text = {
        WaiverUse.ACTIVE: f"lets {count_noun(judgement.cells, 'failing cell')} pass{until or ''}",
        WaiverUse.EXPIRED: f"expired on {entry.expires}: renew it or mend what fails",
        WaiverUse.MENDED: "is no longer needed, because its cells compile again: remove it",
        WaiverUse.UNUSED: "matches no compiled cell",
    }
    return f"{entry.about} {text[judgement.use]} ({entry.reason})"


def _suggestions(result: Gate, strict: bool) -> Iterator[str]:
    """Yield the changes, the releases that they leave untested, and pins without a change."""
    yield from map(_change, result.suggest)
    if result.suggest and not strict and result.of(*OPEN):
        yield (
            "releases without a complete record stay allowed; --strict allows only known good ones"
        )
    for name in result.helpless:
        yield f"{name}: no change of its pins passes: no release that fits is known good"


def _change(change: PinChange) -> str:
    """Return the new text of a pin, and where it goes."""
    line = f"{change.pin.where}: {change.pin.requirement} → {change.pin.name}{change.to}"
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
    """Yield contradictions, failures, advisories, unproven releases and waivers.

    A signature is one annotation, because GitHub shows ten of each level.
    """
    for conflict in result.conflicts:
        for pin in conflict.pins:
            yield _at(pin, "error", "pins contradict each other", _conflict(conflict))
    for group in _failures(result):
        head = f"{result.compiler.spoken}: {phrases.where(group)}"
        text = "\n".join((head, group.line, *phrases.instantiations(group)))
        if group.code in RULES:
            texts = phrases.texts_of(group)
            text += f"\n{texts.cause} {texts.remedy}"
        failing = list(map(short, group.toolchains))
        yield from _annotate_pins(result, failing, "error", phrases.title_of(group.code), text)
    for advisory, releases in _releases_by_advisory(result).items():
        text = f"{result.compiler.spoken} {', '.join(releases)}: {advisory}"
        yield from _annotate_pins(result, releases, "warning", "advisory", text)
    level = "notice"
    if strict:
        level = "warning"
    for release in result.versions:
        if release.standing is not ReleaseState.SCREENED:
            continue
        text = f"{result.compiler.spoken} {release.triton} is screened: {release.why}"
        yield from _annotate_pins(result, [release.triton], level, "screened", text)
    for state in OPEN:
        by_reason = phrases.group_by(result.of(state), lambda each: each.why)
        for why, unproven in by_reason.items():
            releases = [each.triton for each in unproven]
            names = f"{result.compiler.spoken} {', '.join(releases)}"
            text = f"allows {names}, which is not known to work: {why}"
            yield from _annotate_pins(result, releases, level, state.value, text)
    for judgement in result.judged_waivers:
        level = "notice"
        if judgement.is_finding:
            level = "error"
        yield document.Annotation(level, "waiver", waiver_item(judgement))
    for change in result.suggest:
        yield _at(change.pin, "notice", "suggestion", _change(change))
    text = f"{result.in_words.answer} ({_judged_by(result)})"
    yield document.Annotation("notice", "flacheck gate", text)


def _annotate_pins(
    result: Gate, releases: Container[str], level: str, title: str, text: str
) -> Iterator[document.Annotation]:
    """Yield an annotation at each pin that allows one of the releases."""
    pins: dict[Pin, None] = {}
    for admission in result.admissions:
        if any(triton in releases for triton in admission.triton):
            installation = admission.installation
            pins_of_compiler = installation.of(result.compiler.distribution)
            # If Triton is not pinned, the pin of torch decides its release.
            pins.update(dict.fromkeys(pins_of_compiler or installation.of("torch")))
    for pin in pins:
        yield _at(pin, level, title, text)


def _at(pin: Pin, level: str, title: str, text: str) -> document.Annotation:
    # A pin of a whole lock file or the live environment lacks a line, so no file is named.
    if not pin.line:
        return document.Annotation(level, title, text)
    return document.Annotation(level, title, text, (SourceLocation(pin.file, pin.line),))
