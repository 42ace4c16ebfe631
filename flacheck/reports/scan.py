"""The report of a run: the matrix of results, failures with their causes, and next commands."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, structs

from flacheck.capabilities.scan.run_facts import RunFacts
from flacheck.evidence.analysis.grid import Grid, KernelOf, Row, Square, grid
from flacheck.evidence.analysis.groups import UNCLASSIFIED
from flacheck.evidence.analysis.judgement import package_failures
from flacheck.evidence.analysis.known_good import Place
from flacheck.evidence.analysis.order import (
    count_noun,
    kernel_name,
    settings,
    short,
    some,
    toolchain_label,
)
from flacheck.evidence.analysis.slow import CODE as SLOW
from flacheck.evidence.analysis.summary import RunSummary, RunView, Summary
from flacheck.evidence.answers import scan_command
from flacheck.evidence.baseline.comparing import BaselineComparison, ChangedFailure
from flacheck.evidence.measured.comparison import CardComparison
from flacheck.model import Json, Record, Verdict
from flacheck.model.record import RecordDocument
from flacheck.model.source_location import SourceLocation
from flacheck.model.wire import JsonStruct
from flacheck.reports import answer as answers
from flacheck.reports import cases, document, operators, phrases, releases
from flacheck.reports.conclusions import answer, coverage, dtype_tables, known_good, mixed
from flacheck.reports.document import Part, Tone, Words, row
from flacheck.reports.numbers import in_words
from flacheck.reports.phrases import MAX_ITEMS
from flacheck.rules import RULES
from flacheck.tables.targets import TARGETS

# The text and the code of an unknown or skipped cell.
Reason = tuple[str, str | None]
SCHEMA = "flacheck.run/1"
LEGEND = (
    "8/12: 8 of 12 compile · FC… fails · (FC…) fails, but the autotuner skips it · "
    "? unknown · – skipped"
)
# A cell without a result has a reason, a failure its cause.
_VERDICTS = {
    "allOf": [
        {
            "if": {"properties": {"verdict": {"enum": ["unknown", "skipped"]}}},
            "then": {"properties": {"reason": {"type": "string", "minLength": 1}}},
        },
        {
            "if": {"properties": {"verdict": {"const": "fails"}}},
            "then": {"properties": {"code": {"type": "string"}, "signature": {"type": "string"}}},
        },
    ]
}
# Above this number of kernels, those that compile everywhere share one line.
_ROWS = 12
# A row shows the nearest settings and alternatives of a fallback.
_USES = 3
# GitHub shows ten annotations of each level.
_ANNOTATIONS = 10


class ReportedSummary(RunSummary, frozen=True, kw_only=True):
    """The counts of cells, the conclusions, and the comparison with the baseline if there is one.

    `partial` are the places where a question is not answered completely. `untested` are launches
    with invented arguments that are not evidence; no other count includes their cells. `slices` are
    dtypes or forms of the question whose answers differ; `advisories` are the public reports
    against each requested release. `measured` has the releases beside another one on each GPU where
    both were measured.
    """

    baseline: BaselineComparison | UnsetType = UNSET
    measured: tuple[CardComparison, ...] | UnsetType = UNSET


class RunDocument(JsonStruct, frozen=True):
    """One run, or several as one: its records and the conclusions."""

    schema: Literal["flacheck.run/1"]
    run: RunFacts
    records: tuple[Annotated[RecordDocument, Meta(extra_json_schema=_VERDICTS)], ...]
    summary: ReportedSummary


def report(view: RunView, baseline: BaselineComparison | None = None) -> document.Report:
    """Return the run as a document, with its comparison to a baseline.

    The records are read as often as a format needs them.
    """
    records = (_plain(record) for record in view.records())
    before = {"schema": SCHEMA, "run": view.run}
    after = {"summary": _summary(view, baseline).to_json()}
    value = document.Streamed(before, "records", records, after)
    return document.Report(
        _parts(view, baseline),
        value,
        _annotations(view, baseline),
        _cases(view),
        _pins(view),
    )


def _summary(view: RunView, baseline: BaselineComparison | None) -> ReportedSummary:
    parts = structs.asdict(view.summary.document())
    return ReportedSummary(**parts, baseline=baseline or UNSET, measured=view.measured or UNSET)


def _cases(view: RunView) -> Iterator[document.Case]:
    summary = view.summary
    keys = (summary.blocking_keys, summary.untested_keys)
    yield from cases.cases_of(view.records(), *keys, view.locate)


def _pins(view: RunView) -> Iterator[tuple[str, str]]:
    targets_by_pin: dict[str, list[str]] = {}
    for pin in view.summary.specifiers:
        for requirement in filter(None, (pin.torch, pin.triton)):
            targets_by_pin.setdefault(requirement, []).append(pin.target)
    for requirement, targets in targets_by_pin.items():
        yield f"known good on {', '.join(targets)}", requirement


def _plain(record: Record) -> Json:
    """Return a record as JSON."""
    plain = record.to_json()
    for name in ("launch", "options"):
        plain[name] = in_words(plain[name])
    return plain


def _parts(view: RunView, baseline: BaselineComparison | None) -> Iterator[Part]:
    subject, origin = _origin(view)
    yield from answers.parts(subject, view.summary.in_words, origin)
    yield document.Paragraph(f"{_counts(view.summary)}. {answer(view.summary)}")
    yield from phrases.measured(view.measured)
    yield from releases.table(view.summary)
    yield from mixed(view)
    yield from phrases.list_stale(view.run.get("stale", ()))
    yield from _matrix(grid(view.records(), view.summary.untested_keys))
    if baseline is not None:
        yield from _baseline_parts(baseline)
    yield from phrases.failures(view.summary.by_signature)
    yield from phrases.list_package_failures(package_failures(view.summary.standings))
    yield from _slow(view)
    yield from _reasons(view, Verdict.UNKNOWN)
    yield from _reasons(view, Verdict.SKIPPED)
    yield from phrases.list_untested(view.summary.untested_groups)
    yield from coverage(view.summary)
    yield from _fallbacks(view.summary)
    yield from known_good(view.summary)
    yield from operators.table(view.summary)
    yield from dtype_tables(view.summary)
    # The next commands explain the first failure, find its releases, reduce it, and share this.
    runs = " ".join(view.names or (view.run["id"],))
    commands = [f"flacheck report {runs} --format markdown"]
    if view.run.get("source") == "published":
        # No store holds these cells, so that only a scan makes them known by key.
        commands = []
        for group in view.summary.by_signature[:1]:
            place = (group.toolchains[0], group.targets[0], group.kernels[0])
            commands.append(f"flacheck explain {group.code}")
            commands.append(scan_command(view.run["matrix"], *place))
        yield from phrases.items("Next", commands, code=True)
        return
    for group in view.summary.by_signature[:1]:
        key = group.example[:12]
        about = (
            f"flacheck explain {group.code}",
            f"flacheck bisect {key}",
            f"flacheck repro {key}",
        )
        commands = [*about, *commands]
    yield from phrases.items("Next", commands, code=True)


def _baseline_parts(baseline: BaselineComparison) -> Iterator[Part]:
    """Yield what changed since the baseline."""
    tone = Tone.GOOD
    if baseline.new:
        tone = Tone.BAD
    cells = count_noun(baseline.known_count, "cell fails", "cells fail")
    text = f"{count_noun(len(baseline.new), 'new failure')}; {cells} as in the baseline"
    if baseline.fixed_failures:
        failures = count_noun(len(baseline.fixed_failures), "failure")
        text += f"; {failures} mended: write the baseline again with --write-baseline"
    yield document.Heading(f"Against {baseline.file}")
    yield document.Item(text, tone)
    for note in baseline.notes:
        yield document.Item(note, Tone.DOUBT)
    new = list(map(_describe_change, baseline.new))
    yield from phrases.items("New failures", some(new, MAX_ITEMS), Tone.BAD)
    fixed_cells = list(map(_describe_change, baseline.fixed_failures))
    yield from phrases.items("Mended", some(fixed_cells, MAX_ITEMS), Tone.GOOD)


def _describe_change(failure: ChangedFailure) -> str:
    place = f"{toolchain_label(failure.toolchain)} on {failure.target}"
    return f"{kernel_name(failure.kernel)}, {place}: {failure.line or failure.signature}"


def _origin(view: RunView) -> tuple[str, str]:
    """Return the subject of a report, and where its records are from."""
    run = view.run
    matrix = run.get("matrix") or "run"
    about = f"flacheck {run.get('flacheck')}, Python {run.get('python')}"
    if run.get("platform"):
        about += f", {run['platform']}"
    origin = f"{matrix} · {run.get('id')} of {run.get('started')} · {about}"
    if run.get("source") == "published":
        origin = f"{matrix} · published results of {run['started']}, {about}"
    return f"flacheck: {matrix}", origin


def _counts(summary: Summary) -> str:
    """Return one line with the number of cells by outcome."""
    tally = summary.tally
    tolerated_count = sum(group.tolerated_count for group in summary.by_signature)
    beside = {
        "tolerated": tolerated_count,
        "waived": tally.waived_count,
        "known": tally.known_count,
    }
    counts = (
        _count(tally.compiles, "compiles", "compile", slow=len(summary.slow)),
        _count(tally.fails, "fails", "fail", **beside),
        _count(tally.unknown, "unknown", "unknown"),
        _count(tally.skipped, "skipped", "skipped"),
        _count(tally.untested_count, "not tested", "not tested"),
    )
    return f"{count_noun(tally.total, 'cell')}: {', '.join(filter(None, counts))}"


def _count(number: int, one: str, many: str, **among_them: int) -> str:
    """Return `2 fail (1 tolerated)`, or an empty text for zero."""
    if not number:
        return ""
    asides = []
    for word, count in among_them.items():
        if count:
            asides.append(f"{count} {word}")
    return phrases.beside(count_noun(number, one, many), ", ".join(asides))


def _matrix(grid_of_run: Grid) -> Iterator[Part]:
    for target, kernels in grid_of_run.targets.items():
        releases = grid_of_run.tested_toolchains(target)
        rows_to_show = dict(kernels)
        # A long matrix has only the kernels that do not compile everywhere.
        if len(kernels) > _ROWS:
            rows_to_show = {}
            for kernel, squares in kernels.items():
                if not all(each in squares and squares[each].perfect for each in releases):
                    rows_to_show[kernel] = squares
        name = target
        # The verdicts of an experimental target were never compared with a card.
        if target in TARGETS and TARGETS[target].experimental:
            name = f"{target} (experimental)"
        headings = (name, *map(short, releases))
        rows = tuple(_rows(rows_to_show, releases))
        yield document.Table(headings, rows, document.Fit.SPLIT)
        rest = len(kernels) - len(rows_to_show)
        if rest:
            text = f"{count_noun(rest, 'more kernel')}: no failures"
            yield document.Paragraph(text, Tone.FAINT)
    yield document.Paragraph(LEGEND, Tone.FAINT)


def _rows(kernels: Mapping[KernelOf, Row], releases: Sequence[str]) -> Iterator[tuple[Words, ...]]:
    last = None
    for (package, kernel), squares in kernels.items():
        if package and package != last:
            yield (Words(package, Tone.FAINT),)
        last = package
        yield row(f"  {kernel_name(kernel)}", *(_square(squares.get(each)) for each in releases))


def _square(square: Square | None) -> Words:
    """Return a square of the matrix in a few short lines; empty if nothing was scanned."""
    if square is None:
        return Words("")
    if not square.tested_count and square.untested_count:
        return Words("not tested", Tone.FAINT)
    if not square.tested_count:
        return Words("–", Tone.FAINT)
    if square.unknown == square.tested_count:
        return Words("?", Tone.DOUBT)
    # A failure beside a configuration that compiles stands in brackets.
    template = "({})" if square.compiles else "{}"
    codes = []
    for code, _ in square.codes.most_common():
        codes.append(code)
    for code, _ in square.tolerated_codes.most_common():
        codes.append(template.format(code))
    lines = [f"{square.compiles}/{square.tested_count}", *some(codes, 2, "+{}")]
    if square.slow:
        lines.append("slow")
    if square.unknown:
        lines.append("?")
    if square.untested_count:
        lines.append("not tested")
    tone = Tone.DOUBT
    if square.blocking:
        tone = Tone.BAD
    if square.perfect:
        tone = Tone.GOOD
    return Words("\n".join(lines), tone)


def _slow(view: RunView) -> Iterator[Part]:
    slow = view.summary.slow
    if not slow:
        return
    yield document.Heading(f"Slow compiles ({SLOW})")
    rows_to_show = dict(list(slow.items())[:MAX_ITEMS])
    for record in view.records():
        if record.key in rows_to_show:
            took = rows_to_show[record.key]
            text = f"{took.seconds:.1f} s; {took.median:.1f} s on the other releases (median)"
            names = (short(record.toolchain), record.target, kernel_name(record.kernel))
            cell = (*names, record.dtype, settings(record.options))
            yield document.Item(text, notes=(" · ".join(filter(None, cell)),))
    yield from phrases.rest(len(slow), "slow compile")


def _reasons(view: RunView, verdict: Verdict) -> Iterator[Part]:
    reasons = _places_by_reason(view, verdict)
    if reasons:
        yield document.Heading(verdict.value.capitalize())
    for (text, code), pairs in reasons[:MAX_ITEMS]:
        place = phrases.places(*phrases.sorted_places(pairs))
        yield document.Item(f"{len(pairs)} × {text}", notes=(place,))
        # A reason with a semicolon already contains the remedy.
        if code in RULES and ";" not in text:
            yield document.Labelled((("remedy", RULES[code].remedy),))
    yield from phrases.rest(len(reasons), "reason")


def _places_by_reason(view: RunView, verdict: Verdict) -> list[tuple[Reason, list[Place]]]:
    """Return the reasons of cells with this verdict and their places, the most frequent first."""
    if not getattr(view.summary.tally, verdict.value):
        return []
    untested_keys = view.summary.untested_keys
    places: dict[Reason, list[Place]] = {}
    for record in view.records():
        if record.verdict is verdict and record.key not in untested_keys:
            reason = (record.reason or "no reason recorded", record.code)
            places.setdefault(reason, []).append((record.toolchain, record.target))
    return sorted(places.items(), key=lambda each: (-len(each[1]), each[0][0]))


def _fallbacks(summary: Summary) -> Iterator[Part]:
    entries = phrases.advice(summary.fallbacks)
    if not entries:
        return
    rows = []
    for entry in entries[:MAX_ITEMS]:
        failing = some(list(filter(None, entry.failing)), _USES)
        place = phrases.places(entry.toolchains, entry.targets, between="\n")
        names = "\n".join((kernel_name(entry.kernel), *failing))
        uses = Words("\n".join(entry.uses[:_USES]), Tone.GOOD, code=True)
        rows.append(row(names, Words(place, Tone.FAINT), uses))
    yield document.Heading("Fallbacks")
    yield document.Table(("failing", "on", "use instead, nearest first"), tuple(rows))
    yield from phrases.rest(len(entries), "row")


def _annotations(
    view: RunView, baseline: BaselineComparison | None = None
) -> Iterator[document.Annotation]:
    """Yield failures as errors, unknown and slow cells as warnings, and the counts.

    Failures that a waiver, a baseline or the autotuner accepts are notices.
    """
    summary = view.summary
    if baseline is not None:
        for note in baseline.notes:
            yield document.Annotation("warning", "baseline", note)
    places, blocking = _failing_places(view)
    for group in summary.by_signature:
        level = "notice"
        if group.signature in blocking:
            level = "error"
        text = "\n".join((group.line, *phrases.instantiations(group), phrases.where(group)))
        of_group = places.get(group.signature, ())
        title = phrases.title_of(group.code)
        yield document.Annotation(level, title, text, of_group, group.code, group.signature)
    for each in view.run.get("stale", ())[:_ANNOTATIONS]:
        yield document.Annotation("warning", f"changed: {each['kernel']}", "; ".join(each["why"]))
    for (text, _), pairs in _places_by_reason(view, Verdict.UNKNOWN)[:_ANNOTATIONS]:
        place = phrases.places(*phrases.sorted_places(pairs))
        text = f"{len(pairs)} × {text} ({place})"
        yield document.Annotation("warning", "unknown", text)
    if summary.slow:
        text = count_noun(len(summary.slow), "slow compile")
        yield document.Annotation("warning", f"{SLOW} slow compile", text)
    if summary.untested_groups:
        cells = count_noun(sum(each.cells for each in summary.untested_groups), "cell")
        text = f"{cells} with made-up arguments: no evidence either way"
        yield document.Annotation("notice", "not tested", text)
    for entry in summary.coverage:
        where = f"{entry['package']}, {toolchain_label(entry['toolchain'])}"
        recorded_kernels = f"{entry['recorded']} of {entry['launchable']} kernels"
        text = f"{where}: launches of {recorded_kernels} were recorded"
        yield document.Annotation("notice", "coverage", text)
    for each in summary.partial:
        text = f"{each.question.name}: {each.progress} cells answered"
        place = f"{short(each.toolchain)} on {each.target}"
        yield document.Annotation("warning", f"partial: {place}", text)
    yield document.Annotation(
        "notice", "flacheck", f"{summary.in_words.answer}. {answer(summary)} {_counts(summary)}"
    )
    for pin in summary.specifiers:
        text = " ".join(filter(None, (pin.triton, pin.torch)))
        yield document.Annotation("notice", f"known good on {pin.target}", text)


def _failing_places(
    view: RunView,
) -> tuple[dict[str, tuple[SourceLocation, ...]], set[str]]:
    """Return the kernels of each signature, and the signatures with failures that count."""
    places: dict[str, dict[SourceLocation, None]] = {}
    blocking = set()
    # Runs without failures are not read again.
    for record in view.records() if view.summary.by_signature else ():
        if record.verdict is Verdict.FAILS:
            signature = record.signature or record.code or UNCLASSIFIED
            places.setdefault(signature, {})[view.locate(record.cell.kernel)] = None
            if record.key in view.summary.blocking_keys:
                blocking.add(signature)
    return {signature: tuple(each) for signature, each in places.items()}, blocking
