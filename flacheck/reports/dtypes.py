"""The report of dtypes: each broken contract with its line and cures, and failed subjects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flacheck.capabilities.dtypes.finding import (
    PROMOTION,
    REJECTION,
    DtypeFinding,
    ReachedKernel,
)
from flacheck.capabilities.dtypes.heads import ACTUAL_DTYPES, HeadNeeds
from flacheck.capabilities.dtypes.result import DtypesResult
from flacheck.evidence.analysis.order import count_noun, kernel_name, some
from flacheck.model.source_location import SourceLocation
from flacheck.reports import document
from flacheck.reports.document import Annotation, Part, Tone, row
from flacheck.reports.phrases import MAX_ITEMS, group_by, rest
from flacheck.rules import RULES

_HEADINGS = ("kernel", "argument", "dtypes", "without the promotion", "shared memory")


def report(result: DtypesResult) -> document.Report:
    """Return the document of a result, for people, programs and workflows."""
    return document.Report(_parts(result), result.to_json(), _annotations(result))


def _parts(result: DtypesResult) -> Iterator[Part]:
    same = group_by(result.findings, lambda each: (each.subject, each.identity))
    launches = sum(result.launch_counts.values())
    modules = count_noun(len(result.launch_counts), "subject")
    line = f"{modules}, {count_noun(launches, 'launch', 'launches')}: no findings"
    tone = Tone.GOOD
    if result.findings:
        line = f"{modules}: {count_noun(len(same), 'finding')}"
        tone = Tone.BAD
    if result.modules:
        # The layers of these modules were not followed.
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
    """Yield one finding, with all the modes that have it."""
    first = findings[0]
    place = f"{first.file}:{first.line}"
    name = first.subject.rpartition(":")[2]
    yield document.Heading(f"{first.code} {place} · {name}")
    modes = group_by(findings, lambda each: each.mode)
    notes = (f"in {'; '.join(modes)}",)
    yield document.Item(first.source, Tone.BAD, notes, code=True)
    yield document.Item(_describe(first))
    if first.error_at_end is not None and first.code == PROMOTION:
        trip = first.error_at_end
        yield document.Item(
            f"ends the run: {trip.file}:{trip.line}: {trip.source}", Tone.BAD, (trip.text,)
        )
    yield from _kernels("reaches", first.reached_kernels)
    yield from _kernels("without that assertion it reaches", first.beyond)
    if first.code == PROMOTION:
        yield document.Item(f"remedy: cast the result back to {first.source_dtype}")
    elif first.code == REJECTION and first.operand:
        yield document.Item(f"remedy: cast {first.operand} to {first.source_dtype}")


def _kernels(verb: str, kernels: Sequence[ReachedKernel]) -> Iterator[Part]:
    if not kernels:
        return
    number = len(group_by(kernels, lambda each: each.kernel))
    yield document.Item(f"{verb} {count_noun(number, 'kernel')} beside half operands:")
    yield document.Table(_HEADINGS, tuple(map(_row, kernels[:MAX_ITEMS])))
    yield from rest(len(kernels), "row")


def _describe(finding: DtypeFinding) -> str:
    if finding.code != PROMOTION or finding.is_cast:
        return finding.message
    what = finding.operand
    if finding.kind in ("parameter", "buffer"):
        what = f"{finding.operand} ({finding.kind} {finding.parameter})"
    elif finding.kind == "argument":
        what = f"{finding.operand} (argument {finding.parameter})"
    return (
        f"{what} is {finding.result_dtype}: this operation promotes "
        f"{finding.source_dtype} to {finding.result_dtype}"
    )


def _row(effect: ReachedKernel) -> tuple[document.Words, ...]:
    other_dtypes = {}
    for name, dtype in effect.intended_dtypes.items():
        if dtype != effect.dtypes[name]:
            other_dtypes[name] = dtype
    return row(
        kernel_name(effect.kernel),
        effect.argument,
        _dtypes(effect.dtypes),
        _dtypes(other_dtypes),
        _shared(effect),
    )


def _shared(effect: ReachedKernel) -> str:
    """Return the bytes with the intended dtypes, and with the actual ones."""
    cost = effect.shared
    if cost is None:
        return ""
    where = cost.target
    if cost.toolchain:
        where += f", {cost.toolchain}"
    return f"{_bytes(cost.intended)} → {_bytes(cost.actual)} on {where}"


def _bytes(count: int | None) -> str:
    if count is None:
        return "does not compile"
    return f"{count:,}"


def _dtypes(dtypes: Mapping[str, str]) -> str:
    """Return the names by dtype: `fp16 q, v; fp32 k`."""
    by_dtype = group_by(dtypes, lambda name: dtypes[name])
    texts = []
    for dtype, names in sorted(by_dtype.items()):
        texts.append(f"{dtype} {', '.join(names)}")
    return "; ".join(texts)


def _cures(result: DtypesResult) -> Iterator[Part]:
    if not result.cures:
        return
    yield document.Heading("Cures (tried, the smallest change first)")
    for cure in result.cures:
        tone = Tone.GOOD if not cure.remaining else Tone.DOUBT
        outcome = (
            f"{count_noun(cure.remaining, 'finding')} left"
            if cure.remaining
            else "no findings left"
        )
        yield document.Item(f"{cure.name}: {outcome}", tone)


def _heads(result: DtypesResult) -> Iterator[Part]:
    """Yield a table for each kernel: a row for each GPU, a column for each head size."""
    if not result.heads:
        return
    yield document.Heading("Shared memory by head size")
    yield document.Item(
        "bytes with the intended dtypes → with the actual ones; * is more than the GPU has"
    )
    actual_needs = []
    intended_needs = {}
    for each in result.heads:
        if each.which == ACTUAL_DTYPES:
            actual_needs.append(each)
        else:
            intended_needs[each.kernel, each.mode, each.target, tuple(each.sizes)] = each
    by_kernel = group_by(
        actual_needs,
        lambda each: (each.kernel, str(each.mode), str(sorted(each.dtypes.items()))),
    )
    for rows in list(by_kernel.values())[:MAX_ITEMS]:
        first = rows[0]
        yield document.Item(f"{kernel_name(first.kernel)} in {first.mode}: {_dtypes(first.dtypes)}")
        sizes = [f"head size {size}" for size in first.sizes]
        table = []
        for each in rows:
            key = (each.kernel, each.mode, each.target, tuple(each.sizes))
            other = intended_needs.get(key, each)
            table.append(_of_target(other, each))
        yield document.Table(("GPU", "limit", *sizes, "largest that fits"), tuple(table))
        yield from _reasons(rows)
    yield from rest(len(by_kernel), "kernel")


def _of_target(before: HeadNeeds, actual: HeadNeeds) -> tuple[document.Words, ...]:
    cells = []
    for size in actual.sizes:
        cells.append(_change(_need(before, size), _need(actual, size)))
    largest = _change(largest_head(before), largest_head(actual))
    return row(actual.target, f"{actual.limit:,}", *cells, largest)


def largest_head(row: HeadNeeds) -> str:
    """Return the largest head that fits; "none" only if every size was measured."""
    if row.largest is not None:
        return str(row.largest)
    if row.missing or not row.needs:
        return "not measured"
    return "none"


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
    """Yield the reasons why sizes were not measured, once each."""
    targets: dict[str, dict[str, None]] = {}
    for each in rows:
        for why in each.missing.values():
            targets.setdefault(why, {})[each.target] = None
    for why, names in list(targets.items())[:MAX_ITEMS]:
        yield document.Item(f"{', '.join(names)}: {why[:300]}", Tone.DOUBT)


def _not_followed(result: DtypesResult) -> Iterator[Part]:
    if result.not_followed:
        yield document.Heading("Not followed")
        for each in result.not_followed[:MAX_ITEMS]:
            yield document.Item(f"{each.subject}: {each.stage}: {each.reason[:300]}", Tone.DOUBT)
        yield from rest(len(result.not_followed), "subject")
    if result.modules:
        yield document.Heading("Not imported, so their layers were not followed")
        by_reason = group_by(result.modules, lambda module: result.modules[module])
        for why, modules in list(by_reason.items())[:MAX_ITEMS]:
            names = ", ".join(some(modules, MAX_ITEMS))
            yield document.Item(f"{names}: {why[:300]}", Tone.DOUBT)
        yield from rest(len(by_reason), "reason")
        yield document.Item("A package may refuse one Triton release and take another: --triton X")
    if result.stand_ins:
        yield document.Heading(
            "Followed with stand-ins for compiled modules that are not installed"
        )
        by_modules = group_by(result.stand_ins, lambda name: ", ".join(result.stand_ins[name]))
        for stand_ins, subjects in by_modules.items():
            yield document.Item(f"{stand_ins}: {', '.join(some(subjects, MAX_ITEMS))}")
    if result.late:
        late = ", ".join(some(result.late, MAX_ITEMS))
        yield document.Item(f"not reached in time: {late}", Tone.DOUBT)


def _annotations(result: DtypesResult) -> Iterator[Annotation]:
    same = group_by(result.findings, lambda each: each.identity)
    for findings in same.values():
        first = findings[0]
        text = _describe(first)
        if first.error_at_end is not None and first.code == PROMOTION:
            trip = first.error_at_end
            text += f"; {trip.file}:{trip.line} fails: {trip.source}"
        if first.reached_kernels:
            text += (
                f"; it reaches {kernel_name(first.reached_kernels[0].kernel)} beside half operands"
            )
        title = f"{first.code} {RULES[first.code].title}"
        place = SourceLocation(first.file, first.line)
        yield Annotation("error", title, text, (place,), first.code)
