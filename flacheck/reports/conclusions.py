"""What a run comes to, for people: the answer, what is known good and why the rest is not, what
to pin for each dtype, what was not covered."""

from collections import Counter
from collections.abc import Iterator, Sequence

from packaging.requirements import Requirement

from flacheck.analysis.known_good import KnownGood, group_by_key
from flacheck.analysis.order import by_target, count_noun, kernel_name, short, some, toolchain_label
from flacheck.analysis.slices import Slice
from flacheck.analysis.summary import RunView, Summary
from flacheck.model import Json
from flacheck.reports import document, phrases
from flacheck.reports.document import Part, Tone, Words, row
from flacheck.reports.phrases import SHOWN

# How a dtype's answer on a release is shown.
_ANSWERS = {
    "good": Tone.GOOD,
    "fails": Tone.BAD,
    "partial": Tone.DOUBT,
    "unknown": Tone.DOUBT,
    "skipped": Tone.FAINT,
}


def answer(summary: Summary) -> str:
    """The whole run in one sentence, for somebody who has never seen a compiler."""
    if not summary.standings:
        return "This run asked no whole question, so it says nothing about a release as a whole."
    targets = sorted({each.target for each in summary.standings}, key=by_target)
    if summary.known_good:
        return _good_answer(summary, targets)
    if summary.partial:
        answered = sum(each.answered_count for each in summary.standings)
        asked = sum(each.requested_count or 0 for each in summary.standings)
        if all(each.requested_count is not None for each in summary.standings):
            return f"No answer yet: {answered} of {asked} cells are compiled."
        return f"No answer yet: {answered} cells are compiled, and nobody knows of how many."
    has_failure = any(each.failing for each in summary.standings)
    is_open = any(each.undecided_cells and not each.failing for each in summary.standings)
    if has_failure and not is_open:
        return f"No release that was asked compiles everything on {', '.join(targets)}."
    why = "some cells reached no verdict"
    if has_failure:
        why = "some cells fail, others reached no verdict"
    return f"No release is known good on {', '.join(targets)}: {why}."


def _good_answer(summary: Summary, targets: Sequence[str]) -> str:
    """Return the answer where a release is known good, with the pins and their counts."""
    line = f"{'; '.join(_good_releases(summary))}."
    good_targets = {target for release in summary.known_good for target in release.targets}
    without = [target for target in targets if target not in good_targets]
    if without:
        line += f" No release is known good on {', '.join(without)}."
    if all(release.advisories for release in summary.known_good):
        line += " Advisories speak against every one of these releases (see Known good)."
    return line


def _good_releases(summary: Summary) -> Iterator[str]:
    """`25 of 41 cells compile with triton==3.2.0 on sm90 (16 not tested)` for each pin, each good
    compiler that is not Triton, and the Triton builds that no requirement names."""
    tritons = [release for release in summary.known_good if release.triton]
    pins = group_by_key(((pin.triton, pin.torch), pin.target) for pin in summary.specifiers)
    for (triton, torch), pinned_on in pins.items():
        specifier = Requirement(triton).specifier
        names = [
            release.toolchain
            for release in tritons
            if release.has_index and specifier.contains(release.triton or "", prereleases=True)
        ]
        yield _extent_of(summary, " and ".join(filter(None, (torch, triton))), names, pinned_on)
    pin_targets = {pin.target for pin in summary.specifiers}
    for release in tritons:
        on = [target for target in release.targets if target not in pin_targets]
        if on:
            name = f"Triton {release.triton}, which no index has,"
            yield _extent_of(summary, name, [release.toolchain], on)
    others = [release for release in summary.known_good if not release.triton]
    by_targets = group_by_key((release.targets, release.toolchain) for release in others)
    for good_targets, names in by_targets.items():
        compilers = ", ".join(some([toolchain_label(name) for name in names], phrases.NAMED))
        yield _extent_of(summary, compilers, names, good_targets)


def _extent_of(
    summary: Summary, compiler: str, toolchains: Sequence[str], targets: Sequence[str]
) -> str:
    """Count the cells that compile with these toolchains on those of the targets where they are
    known good, and name the outcomes of the other cells."""
    good = {(each.toolchain, target) for each in summary.known_good for target in each.targets}
    counts = Counter[str]()
    for standing in summary.standings:
        is_named = standing.toolchain in toolchains and standing.target in targets
        if not is_named or standing.place not in good:
            continue
        counts.update(cell.verdict.value for cell in standing.cells)
        counts["not tested"] += len(standing.untested_cells)
    rest = []
    if counts["fails"]:
        rest.append(count_noun(counts["fails"], "tolerated failure"))
    for verdict, words in (
        ("unknown", "without a verdict"),
        ("skipped", "skipped"),
        ("not tested", "not tested"),
    ):
        if counts[verdict]:
            rest.append(f"{counts[verdict]} {words}")
    count = counts["compiles"]
    cells = f"{count} of {count_noun(counts.total(), 'cell')}"
    verb = "compile"
    if count == 1:
        verb = "compiles"
    said = f"{cells} {verb} with {compiler} on {', '.join(targets)}"
    return phrases.beside(said, ", ".join(rest))


def mixed(view: RunView) -> Iterator[Part]:
    """Shards that do not belong together."""
    for question, toolchain, target in view.mixed:
        said = (
            f"{question}: these runs ask different cells on {short(toolchain)}, {target}. They are "
            "shards of different captures and do not make a whole; scan all shards with one "
            "--captured FILE"
        )
        yield document.Item(said, Tone.BAD)


def coverage(summary: Summary) -> Iterator[Part]:
    """How many of a package's kernels were recorded, and why the others were not."""
    if not summary.coverage:
        return
    yield document.Heading("Coverage")
    reasons: dict[tuple[str, str], None] = {}
    cuts: dict[str, None] = {}
    by_counts = group_by_key(
        ((each["package"], each["recorded"], each["launchable"]), each) for each in summary.coverage
    )
    for (package, recorded, launchable), alike in by_counts.items():
        releases = ", ".join(dict.fromkeys(short(each["toolchain"]) for each in alike))
        said = f"{package}: launches of {recorded} of {launchable} kernels were recorded"
        yield document.Item(f"{said} ({releases})")
        for each in alike:
            for missed in each["missed"]:
                reasons[missed["kernel"], missed["reason"]] = None
            for cut in each.get("cut", ()):
                cuts[cut] = None
    if cuts:
        said = f"no time was left to call: {', '.join(some(list(cuts), phrases.NAMED))}"
        yield document.Item(said, Tone.DOUBT)
    by_reason = group_by_key((reason, kernel_name(kernel)) for kernel, reason in reasons)
    for reason, kernels in list(by_reason.items())[:SHOWN]:
        named = ", ".join(some(kernels, phrases.NAMED))
        yield document.Item(f"missed: {named}", Tone.FAINT, notes=(reason,))
    yield from phrases.rest(len(by_reason), "reason")
    for each in summary.coverage:
        if "tests" in each:
            yield from _tests(each)


def _tests(covered: Json) -> Iterator[Part]:
    """How the package's own tests ended, and which kernels are recorded thanks to them."""
    tests = covered["tests"]
    where = f"its own tests under {short(covered['toolchain'])}"
    if tests["ended"]:
        yield document.Item(f"{where}: {tests['ended']}", Tone.DOUBT)
    wanting = sum(failure["wants_data"] for failure in tests["failures"])
    said = f"{where}: {tests['passed']} passed, {tests['failed']} failed"
    if wanting:
        said += f" ({wanting} of them read values that nobody computed)"
    said += f", {tests['skipped']} skipped"
    if tests.get("unrun"):
        said += f"; {count_noun(tests['unrun'], 'further case')} not run"
    notes = [f"{one['test']}: {one['error']}" for one in tests["failures"]]
    notes += [f"{file} was not collected: {why}" for file, why in tests["uncollected"].items()]
    yield document.Item(said, notes=tuple(some(notes, phrases.NAMED)))
    if tests["cut"]:
        named = ", ".join(some(tests["cut"], phrases.NAMED))
        yield document.Item(f"no time was left to run: {named}", Tone.DOUBT)
    told = {"tests": "its tests only", "driver": "flacheck's calls only", "both": "both"}
    for source, by in told.items():
        kernels = [kernel_name(kernel) for kernel in tests["kernels"][source]]
        if kernels:
            named = ", ".join(some(kernels, phrases.NAMED))
            yield document.Item(f"{count_noun(len(kernels), 'kernel')} recorded by {by}: {named}")


def known_good(summary: Summary) -> Iterator[Part]:
    yield document.Heading("Known good")
    tritons = [each for each in summary.known_good if each.triton]
    others = [each for each in summary.known_good if not each.triton]
    if tritons:
        rows = (
            row(
                each.triton or "",
                ", ".join(each.torch) or "–",
                ", ".join(each.targets),
                str(each.cells),
            )
            for each in tritons
        )
        yield document.Table(("Triton", "torch", "targets", "cells"), tuple(rows))
    if others:
        rows = (row(each.toolchain, *_extent(each)) for each in others)
        yield document.Table(("compiler", "targets", "cells"), tuple(rows))
    if not summary.known_good:
        yield document.Paragraph("No release.")
    yield from _not_good(summary)
    # Of every release that was asked, also where it does not compile.
    told = group_by_key((said, (triton, on)) for triton, on, said in summary.advisories)
    for said, against in told.items():
        releases = ", ".join(dict.fromkeys(triton for triton, _ in against))
        on = ", ".join(dict.fromkeys(target for _, targets in against for target in targets))
        yield document.Item(f"advised against {releases} on {on}: {said}", Tone.DOUBT)
    pins = group_by_key(((pin.triton, pin.torch), pin.target) for pin in summary.specifiers)
    for requirements, targets in pins.items():
        yield document.Paragraph(f"pin for {', '.join(targets)}")
        for requirement in filter(None, requirements):
            yield document.Item(f'"{requirement}"', Tone.GOOD, code=True)


def _extent(release: KnownGood) -> tuple[str, str]:
    """The targets that it is good for, and how many cells say so."""
    return ", ".join(release.targets), str(release.cells)


def _not_good(summary: Summary) -> Iterator[Part]:
    """What keeps each release from being known good, and what was narrower than its package."""
    narrower = dict.fromkeys(
        each.question.name for each in summary.standings if each.question.narrowing
    )
    for question in narrower:
        yield document.Item(f"asked: {question}", Tone.FAINT)
    reasons = group_by_key((each.obstacle, each) for each in summary.standings if each.obstacle)
    for reason, alike in list(reasons.items())[:SHOWN]:
        place = phrases.places(*phrases.sorted_places([each.place for each in alike]))
        yield document.Item(f"{place}: {reason}", Tone.DOUBT)
    yield from phrases.rest(len(reasons), "reason")
    for each in summary.standings:
        if each.timed_out:
            cells = count_noun(len(each.timed_out), "configuration")
            place = phrases.places([each.toolchain], [each.target])
            why = each.timed_out[0].reason or "no verdict"
            said = f"{place}: {cells} without a verdict ({why}); another of the launch compiles"
            yield document.Item(said, Tone.FAINT)


def dtype_tables(summary: Summary) -> Iterator[Part]:
    """dtype by release, where the dtypes or forms differ."""
    for target, alike in group_by_key((each.target, each) for each in summary.slices).items():
        releases = [release for release, _ in alike[0].answers]
        yield document.Heading(f"dtype by release on {target}")
        rows = []
        for each in alike:
            answers = dict(each.answers)
            cells = [Words(answers[release], _ANSWERS[answers[release]]) for release in releases]
            name = " ".join(filter(None, (each.dtype, each.form)))
            rows.append(row(name, *cells, _pair(each)))
        yield document.Table(("", *releases, "pin"), tuple(rows), document.Fit.SPLIT)


def _pair(each: Slice) -> Words:
    """The torch and Triton releases, or the other compiler, to pin for one dtype."""
    if each.newest is None:
        return Words("none", Tone.BAD)
    if each.pair is None:
        return Words(each.newest, Tone.GOOD)
    torch, triton = each.pair
    names = [f"triton=={triton}"]
    if torch:
        names = [f"torch=={torch}", *names]
    return Words(" ".join(names), Tone.GOOD)
