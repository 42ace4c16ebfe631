"""The report of dtypes: each broken contract with the line that breaks it, its cure, and what could
not be followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.order import count_noun, kernel_name, some
from flacheck.capabilities.dtypes.finding import OVERFLOW, PROMOTION, DtypeFinding, Reached
from flacheck.capabilities.dtypes.heads import ACTUAL, HeadNeeds
from flacheck.capabilities.dtypes.result import DtypesResult
from flacheck.reports import document
from flacheck.reports.document import Annotation, Part, Tone, row
from flacheck.reports.phrases import SHOWN, rest
from flacheck.rules import RULES

FORMATS = ("table", "json", "markdown", "github")
SCHEMA = "flacheck.dtypes/1"
_HEADINGS = ("kernel", "argument", "dtypes", "without the promotion", "shared memory")


def report(result: DtypesResult) -> document.Report:
    """What was found, for people, programs and workflows."""
    value = {"schema": SCHEMA, **result.to_json()}
    return document.Report(_parts(result), value, _annotations(result))


def _parts(result: DtypesResult) -> Iterator[Part]:
    same = group_by_key(((each.subject, each.identity), each) for each in result.findings)
    launches = sum(result.followed.values())
    modules = count_noun(len(result.followed), "subject")
    line = f"{modules}, {count_noun(launches, 'launch', 'launches')}: no findings"
    tone = Tone.GOOD
    if result.findings:
        line = f"{modules}: {count_noun(len(same), 'finding')}"
        known = len(same) - len({(each.subject, each.identity) for each in result.new})
        if known:
            line += f", {known} of them in the baseline"
        tone = Tone.BAD if result.new else Tone.DOUBT
    if result.modules:
        # Layers in these are no subjects: nobody looked at them.
        line += f"; {count_noun(len(result.modules), 'module')} could not be imported"
        if tone == Tone.GOOD:
            tone = Tone.DOUBT
    modes = "; ".join(map(str, result.modes))
    yield document.Title("flacheck dtypes", line, tone, f"{result.about} · {modes}")
    for findings in same.values():
        yield from _finding(findings)
    yield from _cures(result)
    yield from _heads(result)
    yield from _not_followed(result)


def _finding(findings: Sequence[DtypeFinding]) -> Iterator[Part]:
    """One finding, in all the modes that have it."""
    first = findings[0]
    place = f"{first.file}:{first.line}"
    name = first.subject.rpartition(":")[2]
    yield document.Heading(f"{first.code} {place} · {name}")
    tone = Tone.FAINT if first.known else Tone.BAD
    notes = [f"in {'; '.join(dict.fromkeys(each.mode for each in findings))}"]
    if first.known:
        notes.append("known: the baseline lists it")
    yield document.Item(first.source, tone, tuple(notes), code=True)
    yield document.Item(_says(first))
    if first.tripped is not None and first.code == PROMOTION:
        trip = first.tripped
        yield document.Item(
            f"ends the run: {trip.file}:{trip.line}: {trip.source}", Tone.BAD, (trip.text,)
        )
    if first.reached:
        kernels = {each.kernel for each in first.reached}
        yield document.Item(f"reaches {count_noun(len(kernels), 'kernel')} beside half operands:")
        rows = tuple(_row(each) for each in first.reached[:SHOWN])
        yield document.Table(_HEADINGS, rows)
        yield from rest(len(first.reached), "row")
    if first.beyond:
        kernels = {each.kernel for each in first.beyond}
        yield document.Item(
            f"without that assertion it reaches {count_noun(len(kernels), 'kernel')} beside half "
            "operands:"
        )
        rows = tuple(_row(each) for each in first.beyond[:SHOWN])
        yield document.Table(_HEADINGS, rows)
        yield from rest(len(first.beyond), "row")
    if first.fix:
        yield document.Item("cast it:")
        yield document.Listing(first.fix.rstrip("\n"), "diff")


def _says(finding: DtypeFinding) -> str:
    if finding.code == OVERFLOW or finding.code != PROMOTION:
        return finding.says
    what = finding.operand
    if finding.kind in ("parameter", "buffer"):
        what = f"{finding.operand} ({finding.kind} {finding.parameter})"
    elif finding.kind == "argument":
        what = f"{finding.operand} (argument {finding.parameter})"
    return (
        f"{what} is {finding.result_dtype}: this operation promotes "
        f"{finding.source_dtype} to {finding.result_dtype}"
    )


def _row(reached: Reached) -> tuple[document.Words, ...]:
    changed = {n: d for n, d in reached.intended.items() if d != reached.dtypes[n]}
    return row(
        kernel_name(reached.kernel),
        reached.argument,
        _dtypes(reached.dtypes),
        _dtypes(changed),
        _shared(reached),
    )


def _shared(reached: Reached) -> str:
    """Bytes with the dtypes meant, and with the actual ones."""
    cost = reached.shared
    if cost is None:
        return ""
    return f"{_bytes(cost['intended'])} → {_bytes(cost['actual'])} on {cost['target']}"


def _bytes(count: int | None) -> str:
    if count is None:
        return "does not compile"
    return f"{count:,}"


def _dtypes(dtypes: dict[str, str]) -> str:
    """`fp16 q, v; fp32 k`."""
    by_dtype = group_by_key((dtype, name) for name, dtype in dtypes.items())
    return "; ".join(f"{dtype} {', '.join(names)}" for dtype, names in sorted(by_dtype.items()))


def _cures(result: DtypesResult) -> Iterator[Part]:
    if not result.cures:
        return
    yield document.Heading("What cures it (tried, the smallest change first)")
    for cure in result.cures:
        tone = Tone.GOOD if not cure.left else Tone.DOUBT
        outcome = f"{count_noun(cure.left, 'finding')} left" if cure.left else "no findings left"
        yield document.Item(f"{cure.name}: {outcome}", tone)


def _heads(result: DtypesResult) -> Iterator[Part]:
    """A table a kernel: a row a GPU, a column a head size."""
    if not result.heads:
        return
    yield document.Heading("Shared memory by head size")
    yield document.Item(
        "bytes with the dtypes meant → with the actual ones; * is more than the GPU has"
    )
    by_kernel = group_by_key(
        ((each.kernel, str(each.mode), str(sorted(each.dtypes.items()))), each)
        for each in result.heads
        if each.which == ACTUAL
    )
    meant = {
        (each.kernel, each.mode, each.target, tuple(each.sizes)): each
        for each in result.heads
        if each.which != ACTUAL
    }
    for rows in list(by_kernel.values())[:SHOWN]:
        first = rows[0]
        yield document.Item(f"{kernel_name(first.kernel)} in {first.mode}: {_dtypes(first.dtypes)}")
        sizes = [f"head size {size}" for size in first.sizes]
        table = []
        for each in rows:
            other = meant.get((each.kernel, each.mode, each.target, tuple(each.sizes)), each)
            table.append(_of_target(other, each))
        yield document.Table(("GPU", "limit", *sizes, "largest that fits"), tuple(table))
        yield from _reasons(rows)
    yield from rest(len(by_kernel), "kernel")


def _of_target(meant: HeadNeeds, actual: HeadNeeds) -> tuple[document.Words, ...]:
    cells = []
    for size in actual.sizes:
        cells.append(_change(_need(meant, size), _need(actual, size)))
    largest = _change(str(meant.largest or "none"), str(actual.largest or "none"))
    return row(actual.target, f"{actual.limit:,}", *cells, largest)


def _change(before: str, after: str) -> str:
    if before == after:
        return after
    return f"{before} → {after}"


def _need(row: HeadNeeds, size: int) -> str:
    need = row.needs.get(size)
    if need is None:
        return "not measured"
    if need.shared is None:
        return need.why or "does not compile"
    if need.fits:
        return f"{need.shared:,}"
    return f"{need.shared:,}*"


def _reasons(rows: Sequence[HeadNeeds]) -> Iterator[Part]:
    """Why sizes were not measured, once each."""
    reasons = group_by_key((why, each.target) for each in rows for why in each.missing.values())
    for why, names in list(reasons.items())[:SHOWN]:
        yield document.Item(f"{', '.join(dict.fromkeys(names))}: {why[:300]}", Tone.DOUBT)


def _not_followed(result: DtypesResult) -> Iterator[Part]:
    if result.not_followed:
        yield document.Heading("Not followed")
        for each in result.not_followed[:SHOWN]:
            yield document.Item(f"{each.subject}: {each.stage}: {each.reason[:300]}", Tone.DOUBT)
        yield from rest(len(result.not_followed), "subject")
    if result.modules:
        yield document.Heading("Not imported, so their layers were not followed")
        by_reason = group_by_key((why, module) for module, why in result.modules.items())
        for why, unimported in list(by_reason.items())[:SHOWN]:
            listed = ", ".join(some(unimported, SHOWN))
            yield document.Item(f"{listed}: {why[:300]}", Tone.DOUBT)
        yield from rest(len(by_reason), "reason")
        yield document.Item("A package may refuse one Triton release and take another: --triton X")
    if result.stand_ins:
        yield document.Heading("Followed with stand-ins for compiled modules that are not here")
        by_modules = group_by_key((", ".join(m), name) for name, m in result.stand_ins.items())
        for modules, names in by_modules.items():
            yield document.Item(f"{modules}: {', '.join(some(names, SHOWN))}")
    if result.late:
        late = ", ".join(some(result.late, SHOWN))
        yield document.Item(f"not reached in time: {late}", Tone.DOUBT)


def _annotations(result: DtypesResult) -> Iterator[Annotation]:
    same = group_by_key((each.identity, each) for each in result.findings)
    for findings in same.values():
        first = findings[0]
        level = "warning" if first.known else "error"
        text = _says(first)
        if first.tripped is not None and first.code == PROMOTION:
            trip = first.tripped
            text += f"; {trip.file}:{trip.line} fails: {trip.source}"
        if first.reached:
            text += f"; it reaches {kernel_name(first.reached[0].kernel)} beside half operands"
        title = f"{first.code} {RULES[first.code].title}"
        yield Annotation(level, title, text, first.file, first.line)
