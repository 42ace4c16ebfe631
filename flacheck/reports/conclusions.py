"""The conclusions of a run: known good releases, pins, and missing coverage."""

from collections.abc import Iterator, Sequence

from flacheck.evidence.analysis.order import (
    by_target,
    count_noun,
    kernel_name,
    short,
    some,
)
from flacheck.evidence.analysis.slices import Slice
from flacheck.evidence.analysis.summary import RunView, Summary
from flacheck.model.coverage import PackageCoverage
from flacheck.reports import document, operators, phrases, releases
from flacheck.reports.document import Part, Tone, Words, row
from flacheck.reports.phrases import MAX_ITEMS

_EXTENT = ("targets", "standing", "configurations", "kernels")
# The tone of each result of a dtype on a release.
_ANSWERS = {
    "good": Tone.GOOD,
    "fails": Tone.BAD,
    "partial": Tone.DOUBT,
    "unknown": Tone.DOUBT,
    "skipped": Tone.FAINT,
}


def answer(summary: Summary) -> str:
    """Return the whole run in a few words, for a reader without experience of compilers.

    Of several releases of a package the working one comes first, then its operators.
    """
    sentences = (
        releases.sentence(summary),
        operators.sentence(summary),
        _answer(summary),
        phrases.name_sizes(summary.sizes),
    )
    return " ".join(filter(None, sentences))


def _answer(summary: Summary) -> str:
    if not summary.answering:
        return "This run covers no subject completely, so it has no result for a whole release."
    by_targets = phrases.group_by(summary.answering, lambda each: each.target)
    targets = sorted(by_targets, key=by_target)
    if summary.known_good:
        return _good_answer(summary, targets)
    if summary.partial:
        answered_cells = expected_cells = 0
        is_known = True
        for each in summary.answering:
            answered_cells += each.answered_count
            expected_cells += each.requested_count or 0
            is_known &= each.requested_count is not None
        if is_known:
            return f"No answer yet: {answered_cells} of {expected_cells} cells are compiled."
        return f"No answer yet: {answered_cells} cells are compiled; the total is unknown."
    has_failure = is_open = False
    for each in summary.answering:
        if each.failing:
            has_failure = True
        elif each.undecided_cells:
            is_open = True
    if has_failure and not is_open:
        return f"Every tested release has a failure on {', '.join(targets)}."
    why = "some cells reached no verdict"
    if has_failure:
        why = "some cells fail, others reached no verdict"
    return f"No release is known good on {', '.join(targets)}: {why}."


def _good_answer(summary: Summary, targets: Sequence[str]) -> str:
    """Return the GPUs without a known good release, and whether advisories speak against all."""
    sentences = []
    good_targets: set[str] = set()
    for release in summary.known_good:
        good_targets.update(release.targets)
    without = [target for target in targets if target not in good_targets]
    if without:
        sentences.append(f"No release is known good on {', '.join(without)}.")
    if all(release.advisories for release in summary.known_good):
        against = "Advisories speak against every known good release (see Known good)."
        sentences.append(against)
    return " ".join(sentences)


def _pins(summary: Summary) -> dict[tuple[str, str | None], list[str]]:
    """Return the targets of each pair of a Triton and a torch requirement."""
    targets: dict[tuple[str, str | None], list[str]] = {}
    for pin in summary.specifiers:
        targets.setdefault((pin.triton, pin.torch), []).append(pin.target)
    return targets


def mixed(view: RunView) -> Iterator[Part]:
    """Yield the shards that belong to different captures."""
    for question, toolchain, target in view.mixed:
        place = f"{short(toolchain)}, {target}"
        text = (
            f"{question}: these runs contain different cells on {place}. They are "
            "shards of different captures and do not make a whole; scan all shards with one "
            "--captured FILE"
        )
        yield document.Item(text, Tone.BAD)


def coverage(summary: Summary) -> Iterator[Part]:
    """Yield how many of a package's kernels were recorded, and why the others were not."""
    if not summary.coverage:
        return
    yield document.Heading("Coverage")
    reasons: dict[tuple[str, str], None] = {}
    cuts: dict[str, None] = {}
    by_counts = phrases.group_by(
        summary.coverage, lambda each: (each["package"], each["recorded"], each["launchable"])
    )
    for (package, recorded_count, launchable), alike in by_counts.items():
        compilers = ", ".join(dict.fromkeys(short(each["toolchain"]) for each in alike))
        text = f"{package}: launches of {recorded_count} of {launchable} kernels were recorded"
        yield document.Item(f"{text} ({compilers})")
        for each in alike:
            for miss in each["missed"]:
                reasons[miss["kernel"], miss["reason"]] = None
            for cut in each.get("cut", ()):
                cuts[cut] = None
    if cuts:
        text = f"no time was left to call: {', '.join(some(list(cuts), phrases.MAX_KERNELS))}"
        yield document.Item(text, Tone.DOUBT)
    by_reason: dict[str, list[str]] = {}
    for kernel, reason in reasons:
        by_reason.setdefault(reason, []).append(kernel_name(kernel))
    for reason, kernels in list(by_reason.items())[:MAX_ITEMS]:
        names = ", ".join(some(kernels, phrases.MAX_KERNELS))
        yield document.Item(f"missed: {names}", Tone.FAINT, notes=(reason,))
    yield from phrases.rest(len(by_reason), "reason")
    for each in summary.coverage:
        if "tests" in each:
            yield from _tests(each)


def _tests(entry: PackageCoverage) -> Iterator[Part]:
    """Yield the results of the package's own tests, and the kernels that they recorded."""
    tests = entry["tests"]
    where = f"its own tests under {short(entry['toolchain'])}"
    if tests["ended"]:
        yield document.Item(f"{where}: {tests['ended']}", Tone.DOUBT)
    notes = []
    data_failures = 0
    for failure in tests["failures"]:
        notes.append(f"{failure['test']}: {failure['error']}")
        data_failures += failure["wants_data"]
    for file, why in tests["uncollected"].items():
        notes.append(f"{file} was not collected: {why}")
    text = f"{where}: {tests['passed']} passed, {tests['failed']} failed"
    if data_failures:
        text += f" ({data_failures} of them read uncomputed values)"
    text += f", {tests['skipped']} skipped"
    if tests.get("unrun"):
        text += f"; {count_noun(tests['unrun'], 'further case')} not run"
    yield document.Item(text, notes=tuple(some(notes, phrases.MAX_KERNELS)))
    if tests["cut"]:
        names = ", ".join(some(tests["cut"], phrases.MAX_KERNELS))
        yield document.Item(f"no time was left to run: {names}", Tone.DOUBT)
    recorded = tests["kernels"]
    kernels_by_source = {
        "its tests only": recorded["tests"],
        "flacheck's calls only": recorded["driver"],
        "both": recorded["both"],
    }
    for source, kernels in kernels_by_source.items():
        if kernels:
            names = ", ".join(some(list(map(kernel_name, kernels)), phrases.MAX_KERNELS))
            count = count_noun(len(kernels), "kernel")
            yield document.Item(f"{count} recorded by {source}: {names}")


def known_good(summary: Summary) -> Iterator[Part]:
    yield document.Heading("Known good")
    triton_rows, other_rows = [], []
    for each in summary.known_good:
        extent = (
            ", ".join(each.targets),
            each.state.value,
            str(each.configurations),
            str(each.kernels),
        )
        if each.triton:
            triton_rows.append(row(each.triton, ", ".join(each.torch) or "–", *extent))
        else:
            other_rows.append(row(each.toolchain, *extent))
    if triton_rows:
        yield document.Table(("Triton", "torch", *_EXTENT), tuple(triton_rows))
    if other_rows:
        yield document.Table(("compiler", *_EXTENT), tuple(other_rows))
    if not summary.known_good:
        yield document.Paragraph("No release.")
    yield from _not_good(summary)
    # Advisories cover every release of the run, even one that fails.
    by_text = phrases.group_by(summary.advisories, lambda advisory: advisory[2])
    for text, alike in by_text.items():
        tritons: dict[str, None] = {}
        on: dict[str, None] = {}
        for triton, targets, _ in alike:
            tritons[triton] = None
            on.update(dict.fromkeys(targets))
        names = f"{', '.join(tritons)} on {', '.join(on)}"
        yield document.Item(f"advised against {names}: {text}", Tone.DOUBT)
    for requirements, gpus in _pins(summary).items():
        yield document.Paragraph(f"pin for {', '.join(gpus)}")
        package = None
        if summary.working_release is not None:
            package = summary.working_release.spec
        for requirement in filter(None, (package, *requirements)):
            yield document.Item(f'"{requirement}"', Tone.GOOD, code=True)


def _not_good(summary: Summary) -> Iterator[Part]:
    """Yield the obstacle of each release that is not known good, and narrowed questions."""
    narrower: dict[str, None] = {}
    for standing in summary.answering:
        if standing.question.narrowing:
            narrower[standing.question.name] = None
    for question in narrower:
        yield document.Item(f"scanned only: {question}", Tone.FAINT)
    with_obstacle = [each for each in summary.answering if not each.is_passing]
    reasons = phrases.group_by(with_obstacle, lambda each: each.obstacle)
    for reason, alike in list(reasons.items())[:MAX_ITEMS]:
        yield document.Item(f"{phrases.places_of(alike)}: {reason}", Tone.DOUBT)
    yield from phrases.rest(len(reasons), "reason")
    for each in summary.answering:
        if each.timed_out:
            cells = count_noun(len(each.timed_out), "configuration")
            place = phrases.places([each.toolchain], [each.target])
            why = each.timed_out[0].reason or "no verdict"
            text = f"{place}: {cells} without a verdict ({why}); another configuration compiles"
            yield document.Item(text, Tone.FAINT)


def dtype_tables(summary: Summary) -> Iterator[Part]:
    """Yield a table of dtypes by release, where the dtypes or forms differ."""
    by_targets = phrases.group_by(summary.slices, lambda each: each.target)
    for target, alike in by_targets.items():
        columns = [release for release, _ in alike[0].answers]
        yield document.Heading(f"dtype by release on {target}")
        rows = []
        for each in alike:
            answers = dict(each.answers)
            cells = []
            for release in columns:
                cells.append(Words(answers[release], _ANSWERS[answers[release]]))
            name = " ".join(filter(None, (each.dtype, each.form)))
            rows.append(row(name, *cells, _pair(each)))
        yield document.Table(("", *columns, "pin"), tuple(rows), document.Fit.SPLIT)


def _pair(each: Slice) -> Words:
    """Return the torch and Triton releases, or the other compiler, to pin for one dtype."""
    if each.newest is None:
        return Words("none", Tone.BAD)
    if each.pair is None:
        return Words(each.newest, Tone.GOOD)
    torch, triton = each.pair
    names = [f"triton=={triton}"]
    if torch:
        names = [f"torch=={torch}", *names]
    return Words(" ".join(names), Tone.GOOD)
