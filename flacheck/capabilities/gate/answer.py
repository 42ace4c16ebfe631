"""The answer of a gate: do the pins allow only releases that work."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.capabilities.gate.judged_pins import JudgedPins, JudgedRelease
from flacheck.errors import Exit
from flacheck.evidence.analysis.order import count_noun, kernel_name, some
from flacheck.model.answer import Answer, Point, VerdictWord, make_answer
from flacheck.rules import RULES

# The headline counts the states in this order.
_STATES = {
    "good": "good",
    "screened": "screened",
    "partial": "partial",
    "no-record": "without a record",
    "bad": "bad",
}
_SHOWN = 3


def answer_of(gate: JudgedPins) -> Answer:
    """Return the answer with the counts of releases, what speaks against the pins, and a change."""
    points = tuple(_points(gate))
    words = VerdictWord.YES
    is_rare = not any(each.failures and each.decides for each in gate.versions)
    is_other = gate.conflicts or any(each.is_finding for each in gate.judged_waivers)
    if gate.exit_code() is Exit.FINDINGS and (is_other or not is_rare):
        words = VerdictWord.NO
    elif gate.exit_code() is Exit.INCOMPLETE:
        words = VerdictWord.UNKNOWN
    elif points:
        words = VerdictWord.YES_BUT
    text = _counts(gate)
    if words is VerdictWord.YES_BUT:
        text = _rare_failures(gate) or text
    return make_answer(words, text, points, _recommendation(gate))


def _rare_failures(gate: JudgedPins) -> str:
    """Return how many kernels fail, and under how many releases; empty if none fails."""
    failing = {kernel for each in gate.versions for kernel in each.kernels}
    if not failing:
        return ""
    kernels = "1 kernel that models do not meet fails"
    if len(failing) > 1:
        kernels = f"{len(failing)} kernels that models do not meet fail"
    releases = f"the {gate.compiler.spoken} release"
    if len(gate.versions) > 1:
        number = sum(bool(each.kernels) for each in gate.versions)
        releases = f"{number} of the {len(gate.versions)} {gate.compiler.spoken} releases"
    return f"{kernels} under {releases} that your pins allow"


def _counts(gate: JudgedPins) -> str:
    counts = []
    for state, word in _STATES.items():
        number = sum(each.standing.value == state for each in gate.versions)
        if number:
            counts.append(f"{number} {word}")
    advised = sum(each.state.value == "advised" for each in gate.versions)
    if advised:
        counts.append(f"{advised} advised against")
    if gate.conflicts:
        counts.append(count_noun(len(gate.conflicts), "contradiction"))
    releases = count_noun(len(gate.versions), f"{gate.compiler.spoken} release")
    return f"your pins allow {releases}: {', '.join(counts) or 'none'}"


def _points(gate: JudgedPins) -> Iterator[Point]:
    """Yield what speaks against the pins, worst first."""
    for conflict in gate.conflicts:
        yield Point(conflict.reason, "change one of the pins; --suggest shows how")
    name = gate.compiler.spoken
    exclude = f"exclude it: {gate.compiler.distribution}!="
    for release in gate.versions:
        if release.failures:
            remedy = exclude + release.triton
            if not release.decides:
                remedy = "models do not meet it: waive it in [[tool.flacheck.waivers]]"
            yield Point(_failures(f"{name} {release.triton}", release), remedy)
    for waiver in gate.judged_waivers:
        if waiver.is_finding:
            text = f"the waiver of {waiver.waiver.about} is {waiver.use.value}"
            yield Point(text, "remove it")
    advised: dict[str, list[str]] = {}
    unproven: dict[str, list[str]] = {}
    for release in gate.versions:
        for text in release.advisories:
            advised.setdefault(text, []).append(release.triton)
        if release.state.value in ("partial", "no-record"):
            unproven.setdefault(release.why, []).append(release.triton)
    for text, releases in advised.items():
        yield Point(f"{name} {', '.join(releases)}: {text}")
    for why, releases in unproven.items():
        remedy = "--scan compiles it" if releases[0][0].isdigit() else "bound the pin"
        yield Point(f"{name} {', '.join(some(releases, _SHOWN))}: {why}", remedy)


def _failures(name: str, release: JudgedRelease) -> str:
    kernels = ", ".join(some(list(map(kernel_name, release.kernels)), _SHOWN))
    verb = "fails" if len(release.kernels) == 1 else "fail"
    code = release.codes[0]
    title = RULES[code].title if code in RULES else "an unrecognised failure"
    return f"{kernels} {verb} under {name}: {code}, {title}"


def _recommendation(gate: JudgedPins) -> str:
    """Return the changes that pass, else the good releases, else what would show one."""
    if gate.suggest:
        changes = []
        for change in gate.suggest:
            changes.append(
                f"{change.pin.where}: {change.pin.requirement} → {change.pin.name}{change.to}"
            )
        return "; ".join(changes)
    if gate.exit_code() is Exit.OK:
        return "keep the pins"
    failing = [each for each in gate.versions if each.failures]
    if failing and not any(each.decides for each in failing) and not gate.conflicts:
        return "keep the pins, and waive the failures that models do not meet"
    if gate.known_good:
        return f"pin {' '.join(gate.known_good)}"
    return "compile the allowed releases with --scan: none is known good"
