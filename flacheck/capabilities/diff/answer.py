"""The answer of a comparison: can I upgrade, what speaks against it, and which side is better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flacheck.capabilities.diff.differences import Difference, DifferenceKind
from flacheck.capabilities.diff.facts import ComparedSides
from flacheck.evidence.analysis.order import count_noun, kernel_name, settings, some
from flacheck.evidence.answers import scan_command, weight_of
from flacheck.model import Record, Verdict
from flacheck.model.answer import MOST_WORDS, Answer, Point, VerdictWord, make_answer
from flacheck.rules import RULES
from flacheck.tables.advisories import Effect

# The number of kernels that a point names.
_SHOWN_KERNELS = 3
_MODEL_DTYPES = frozenset({"bf16", "fp16"})
_FURTHER = (
    "kernel fails in configurations that are not compared",
    "kernels fail in configurations that are not compared",
)
# By the singular of what happens to a kernel; others stay with FROM.
_REMEDIES = {
    _FURTHER[0]: "--configs own compares them",
    "fails, which is waived": "remove the waiver when it is mended",
    "is not launched any more": "--strict exits 3 for it",
    "was not reached by the capture": "name the operator with --op",
    "has no verdict": "--timeout gives it more time",
}


def answer_of(comparison: ComparedSides) -> Answer:
    """Return the answer to "can I upgrade?"."""
    against = list(_against(comparison))
    advisory_points = _advisory_points(comparison)
    points = [*against, *advisory_points, *_untested(comparison), *_gains(comparison)]
    words, text = _sentence(comparison, [each.text for each in against])
    if words is not VerdictWord.UNKNOWN:
        text = _shortened(text, _on(comparison.targets), _better_side(comparison))
    return make_answer(
        words, text, tuple(points), _recommendation(comparison), tuple(_commands(comparison))
    )


def _shortened(text: str, on: str, clause: str) -> str:
    """Return a sentence with a clause, without its GPUs and numbers if it is too long."""
    most = MOST_WORDS - len(VerdictWord.YES_BUT.value.split())
    if on and len(f"{text}{clause}".split()) > most:
        text = text.replace(on, "", 1)
    if len(f"{text}{clause}".split()) > most:
        clause = clause.partition(" (")[0]
    return f"{text}{clause}"


def _sentence(comparison: ComparedSides, against: Sequence[str]) -> tuple[VerdictWord, str]:
    kernels, before, after = comparison.kernels, comparison.before, comparison.after
    total = count_noun(len(kernels.compiled_before), "kernel")
    where = f"under {after.release}{_on(comparison.targets)}"
    verb = _verb(len(kernels.compiled_before), "compile")
    still = f"{kernels.still} of {total} still {verb} {where}"
    if not before.has_verdict and not after.has_verdict:
        return VerdictWord.UNKNOWN, f"nothing has a verdict under {before.release} or {where[6:]}"
    if comparison.is_rare_regression:
        number = len(comparison.further_failing)
        failing = f"{count_noun(number, 'kernel')} {_verb(number, 'fail')} that models do not meet"
        return VerdictWord.YES_BUT, f"{failing}: {still}"
    if comparison.is_regression:
        deciding = _deciding_kernels(comparison)
        if not kernels.failing:
            return VerdictWord.NO, f"{against[0]}{_on(comparison.targets)}"
        if not deciding and not comparison.has_other_regression:
            return VerdictWord.YES_BUT, f"{len(kernels.failing)} fail in fp32 alone: {still}"
        number = len(kernels.failing)
        text = f"{number} of {total} that compiled under {before.release} "
        text += f"{_verb(number, 'fail')} {where}"
        lost = len(kernels.not_launched)
        return VerdictWord.NO, f"{text}, and {lost} {_be(lost)} not launched" if lost else text
    if not kernels.compiled_before:
        if after.compiles:
            text = f"nothing compiled under {before.release}, and "
            text += f"{count_noun(after.compiles, 'cell compiles', 'cells compile')} {where}"
            return VerdictWord.YES, text
        return VerdictWord.UNKNOWN, f"nothing compiles under {before.release} or {where[6:]}"
    if against:
        return VerdictWord.YES_BUT, f"{against[0].partition(' (')[0]}: {still}"
    if comparison.advisories[1] and not comparison.advisories[0]:
        return VerdictWord.YES_BUT, f"with advisories: {still}"
    untested = len(kernels.not_tested)
    return VerdictWord.YES, f"{still} ({untested} not tested)" if untested else still


def _on(targets: Sequence[str]) -> str:
    if len(targets) > 2:
        return f" on {len(targets)} GPUs"
    return f" on {', '.join(targets)}" if targets else ""


def _be(number: int) -> str:
    return "is" if number == 1 else "are"


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _deciding_kernels(comparison: ComparedSides) -> list[str]:
    """Return the failing kernels without a model's dtype that compiles under TO."""
    failing: dict[str, set[str | None]] = {}
    works: dict[str, set[str | None]] = {}
    for change in comparison.changes:
        if change.counts_against:
            failing.setdefault(change.kernel, set()).add(change.record.dtype)
        elif _compiles(change.pair.after):
            works.setdefault(change.kernel, set()).add(change.record.dtype)
    deciding = []
    for kernel, dtypes in failing.items():
        is_rare = not dtypes & {None, *_MODEL_DTYPES}
        if not (is_rare and works.get(kernel, set()) & _MODEL_DTYPES):
            deciding.append(kernel)
    return deciding


def _compiles(record: Record | None) -> bool:
    return record is not None and record.verdict is Verdict.COMPILES


def _against(comparison: ComparedSides) -> Iterator[Point]:
    """Yield what speaks against TO, worst first."""
    after = comparison.after
    stay = f"stay with {comparison.before.release}"
    refusals = [each for each in comparison.refusals if each.kind is DifferenceKind.REGRESSED]
    if refusals:
        names = ", ".join(some(sorted(each.kernel for each in refusals), _SHOWN_KERNELS))
        yield Point(f"the package refuses {names} under {after.release}", stay)
    for word in comparison.unmet:
        text = f"{word.text}, which {after.release} does not satisfy"
        yield Point(text, "take another release of the package")
    for measured in comparison.measured:
        if measured.wrong:
            yield Point(measured.clause, stay)
    regressions = [each for each in comparison.changes if each.counts_against]
    yield from _failing_points(comparison, regressions)
    yield from _kernel_points(comparison)
    for measured in comparison.measured:
        if measured.slower and not measured.wrong:
            yield Point(measured.clause, "flacheck measure --shape measures at your sizes")
    for side in (comparison.before, comparison.after):
        if side.partial:
            text = f"{side.name} is partial: {side.partial} cells answered"
            yield Point(text, "run the scan again: it resumes")


def _kernel_points(comparison: ComparedSides) -> Iterator[Point]:
    """Yield a point for each group of kernels that TO lacks or does not compile."""
    kernels, stay = comparison.kernels, f"stay with {comparison.before.release}"
    rows = (
        (kernels.refused_by_package, "is refused by the package", "are refused by the package"),
        (comparison.further_failing, *_FURTHER),
        (
            kernels.waived_failures,
            "fails, which is waived",
            "fail, which is waived",
        ),
        (kernels.not_launched, "is not launched any more", "are not launched any more"),
        (kernels.not_reached, "was not reached by the capture", "were not reached by the capture"),
        (kernels.without_verdict, "has no verdict", "have no verdict"),
    )
    for own, one, many in rows:
        if own:
            yield Point(_named(own, one, many), _REMEDIES.get(one, stay))


def _named(kernels: Sequence[str], one: str, many: str) -> str:
    """Return a number of kernels with their names, which are sorted: records have other orders."""
    names = ", ".join(some(sorted(map(kernel_name, kernels)), _SHOWN_KERNELS))
    return f"{len(kernels)} {one if len(kernels) == 1 else many} ({names})"


def _untested(comparison: ComparedSides) -> Iterator[Point]:
    names = comparison.kernels.not_tested
    if names:
        text = _named(names, "not tested", "not tested")
        yield Point(text, "flacheck capture records the launches of a program")


def _failing_points(
    comparison: ComparedSides, regressions: Sequence[Difference]
) -> Iterator[Point]:
    """Yield a point for each code, with kernels, dtypes and a fallback or the bisection."""
    by_code: dict[str, list[Difference]] = {}
    for change in regressions:
        if change.kernel in comparison.kernels.failing:
            by_code.setdefault(change.record.code or "FC000", []).append(change)
    uses = {each.kernel: settings(each.use) for each in reversed(comparison.fallbacks)}
    for code, alike in by_code.items():
        dtypes: dict[str, dict[str, None]] = {}
        for change in alike:
            own = dtypes.setdefault(kernel_name(change.kernel), {})
            own[change.record.dtype or "any dtype"] = None
        names = [f"{name} ({', '.join(own)})" for name, own in sorted(dtypes.items())]
        verb = "no longer compile" if len(names) > 1 else "no longer compiles"
        title = RULES[code].title if code in RULES else "an unrecognised failure"
        text = f"{', '.join(some(names, _SHOWN_KERNELS))} {verb}: {code}, {title}"
        use = uses.get(alike[0].kernel)
        remedy = f"flacheck bisect {alike[0].record.key[:12]} finds the release"
        if comparison.published is not None:
            remedy = f"{_scan(comparison, alike[0].record)} compiles it here"
        yield Point(text, f"use {use}" if use else remedy)


def _advisory_points(comparison: ComparedSides) -> Iterator[Point]:
    """Yield the advisories against TO, then those that it is free of."""
    before, after = comparison.advisories
    for advisory in after:
        yield Point(f"{comparison.after.release}: {advisory.what}.", f"{advisory.remedy}.")
    there = {each.id for each in after}
    for advisory in before:
        if advisory.id not in there:
            yield Point(f"{comparison.after.release} is free of this: {advisory.what}.")


def _better_side(comparison: ComparedSides) -> str:
    """Return the clause that compares the advisories of both sides."""
    before, after = comparison.advisories
    if not before and not after:
        return ""
    silent = [sum(each.effect is Effect.WRONG_RESULTS for each in side) for side in (before, after)]
    if not after:
        known = "wrong results" if silent[0] else "advisories"
        return f"; the {known} of {comparison.before.release} are gone"
    if not before:
        known = "wrong results" if silent[1] else "crashes"
        return f"; {count_noun(len(after), 'advisory', 'advisories')} on {known}"
    if silent[0] != silent[1]:
        more = "fewer" if silent[1] < silent[0] else "more"
        return f", with {more} known wrong results ({silent[1]}, not {silent[0]})"
    if len(before) != len(after):
        more = "fewer" if len(after) < len(before) else "more"
        return f", with {more} advisories ({len(after)}, not {len(before)})"
    return f"; both have {count_noun(len(after), 'advisory', 'advisories')}"


def _gains(comparison: ComparedSides) -> Iterator[Point]:
    """Yield the mended kernels, and the new and moved ones of a package's other release."""
    kernels = comparison.kernels
    failing = kernels.new_failing
    mended = {change.kernel for change in comparison.of(DifferenceKind.MENDED)}
    if mended:
        names = ", ".join(some(sorted(map(kernel_name, mended)), _SHOWN_KERNELS))
        yield Point(f"{len(mended)} mended ({names})")
    for measured in comparison.measured:
        if not (measured.wrong or measured.slower):
            yield Point(measured.clause)
    if not (comparison.before.package and comparison.after.package):
        return
    if kernels.new:
        text = f"{len(kernels.new)} new"
        if failing:
            names = ", ".join(some(sorted(map(kernel_name, failing)), _SHOWN_KERNELS))
            text += f", of which {len(failing)} {_verb(len(failing), 'fail')} ({names})"
        yield Point(text)
    if comparison.moved:
        yield Point(f"{len(comparison.moved)} moved to another module")


def _recommendation(comparison: ComparedSides) -> str:
    """Return the pin; without a clean side the one with fewer known problems."""
    pin = comparison.pin
    requirements = list(filter(None, (pin.package, pin.torch, pin.triton, pin.toolchain)))
    if requirements:
        return f"pin {' '.join(requirements)}: {pin.why}"
    numbers = []
    failing = (set[str](), set(comparison.kernels.failing))
    for failures, advised, own in zip(comparison.failures, comparison.advisories, failing):
        kernels = own.union(cell.kernel for cell in failures) - comparison.made_up_failing
        numbers.append(len(kernels) + weight_of(advised))
    old, new = numbers
    better, other = comparison.after, comparison.before
    does_not_fit = comparison.has_other_regression and not comparison.is_rare_regression
    if new > old or does_not_fit:
        better, other = other, better
    if does_not_fit:
        return f"{better.release}: {pin.why}, and the package does not fit {other.release}"
    if old == new:
        return f"{better.release}: {pin.why}, and {other.release} has as many known problems"
    return f"{better.release}: {pin.why}, and {other.release} has more known problems"


def _scan(comparison: ComparedSides, record: Record) -> str:
    about = record.package or comparison.about
    return scan_command(about, record.toolchain, record.target, record.kernel)


def _commands(comparison: ComparedSides) -> Iterator[str]:
    """Yield the commands that look at the first failure, and the one that installs the pin."""
    for change in comparison.of(DifferenceKind.REGRESSED):
        if not change.record.launch:
            continue
        if change.record.code:
            yield f"flacheck explain {change.record.code}"
        if comparison.published is not None:
            # No store holds the cell: this scan's report goes on with `bisect` and `repro`.
            yield _scan(comparison, change.record)
        else:
            yield f"flacheck bisect {change.record.key[:12]}"
            yield f"flacheck repro {change.record.key[:12]}"
        break
    is_one_package = "==" in comparison.about and " " not in comparison.about
    if is_one_package and comparison.pin.side == "none" and comparison.targets:
        yield f"flacheck known {comparison.about} --target {','.join(comparison.targets)}"
    pin = comparison.pin
    requirement = pin.package or pin.torch or pin.triton
    # No requirement exists for a local build or a compiler outside the environment.
    if requirement and pin.side in ("to", "other"):
        yield f'pip install "{requirement}"'
