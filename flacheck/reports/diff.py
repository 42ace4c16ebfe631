"""The report of a comparison: the result, regressions, improvements, and next commands."""

import re
from collections.abc import Iterable, Iterator, Sequence

from flacheck.capabilities.diff.compared_side import ComparedSide
from flacheck.capabilities.diff.differences import Difference, DifferenceKind
from flacheck.capabilities.diff.result import Comparison
from flacheck.evidence.analysis.order import count_noun, kernel_name, parameters, settings, some
from flacheck.model import Record, Verdict
from flacheck.reports import answer as answers
from flacheck.reports import document, phrases
from flacheck.reports.document import CaseOutcome, Part, Tone, Words, row
from flacheck.reports.numbers import in_words
from flacheck.reports.phrases import MAX_ITEMS
from flacheck.rules import RULES
from flacheck.tables.advisories import Advisory

# Characters of a compiler's message in a table.
_MESSAGE = 100
# GitHub shows ten annotations of each level.
_ANNOTATIONS = 10
# The narrowed comparisons, in words.
_NARROWED = {"usual": "one configuration", "edges": "a few configurations"}


def report(result: Comparison, command: str = "") -> document.Report:
    """Return the comparison as a document; `command` is the user's command, for the next ones."""
    return document.Report(
        _parts(result, command),
        in_words(result.to_json()),
        _annotations(result),
        _cases(result),
        _pins(result),
    )


def _parts(result: Comparison, command: str) -> Iterator[Part]:
    yield from answers.parts("flacheck diff", result.in_words, _about(result))
    if result.published is not None:
        yield document.Paragraph(result.published.sentence)
    sizes = phrases.name_sizes(result.sizes)
    if sizes:
        yield document.Paragraph(sizes)
    yield _sides(result)
    yield from _failing("Regressed", result.of(DifferenceKind.REGRESSED), Tone.BAD)
    yield from _failing("Other cause", result.of(DifferenceKind.CHANGED_CAUSE), Tone.DOUBT)
    yield from _reasons(f"Only under {result.before.release}", result.of(DifferenceKind.ONLY_FROM))
    yield from _fixed_cells(result)
    yield from _slower(result)
    yield from _measured(result)
    yield from _reasons("Unknown", result.of(DifferenceKind.UNKNOWN))
    yield from _reasons("Not tested", result.of(DifferenceKind.UNTESTED))
    yield from _reasons(f"Only under {result.after.release}", result.of(DifferenceKind.ONLY_TO))
    yield from _unchanged_cells(result)
    yield from _advisories(result)
    yield from _package(result)
    yield from _coverage(result)
    yield from _fallbacks(result)
    yield from phrases.items("Next", _commands(result, command), code=True)


def _about(result: Comparison) -> str:
    about = f"{result.change} · {result.about}"
    if result.is_narrowed:
        number = _NARROWED[str(result.configs)]
        about += f" · {number} of each kernel and dtype (--configs own compares all)"
    if result.run:
        about += f" · run {result.run}"
    return about


def _sides(result: Comparison) -> Part:
    rows = [
        _side(result, "from", result.before, result.advisories[0]),
        _side(result, "to", result.after, result.advisories[1]),
    ]
    headings = (
        "",
        "side",
        *_names(result),
        "compile",
        "fail",
        "unknown",
        "skipped",
        "advisories",
    )
    return document.Table(headings, tuple(rows))


def _is_of_triton(result: Comparison) -> bool:
    """Return True if a compiler is Triton or unknown; torch does not apply to other compilers."""
    sides = (result.before, result.after)
    return any(side.triton for side in sides) or not any(side.toolchain for side in sides)


def _names(result: Comparison) -> tuple[str, ...]:
    if _is_of_triton(result):
        return "Triton", "torch"
    return ("compiler",)


def _side(
    result: Comparison, place: str, side: ComparedSide, advisories: Sequence[Advisory]
) -> tuple[document.Words, ...]:
    counts = []
    for verdict in Verdict:
        counts.append(str(side.verdicts.get(verdict, 0)))
    names = [side.toolchain or "–"]
    if _is_of_triton(result):
        names = [side.triton or "–", side.torch or ", ".join(side.torch_for) or "–"]
    advisory_cell = Words("none")
    if advisories:
        advisory_cell = Words(str(len(advisories)), Tone.DOUBT)
    return row(place, side.text, *names, *counts, advisory_cell)


def _failing(heading: str, changes: Sequence[Difference], tone: Tone) -> Iterator[Part]:
    """Yield failures by cause, each with its kernels."""
    groups = phrases.group_by(changes, _cause)
    if groups:
        yield document.Heading(heading)
    for cause, alike in list(groups.items())[:MAX_ITEMS]:
        notes = list(map(_where, alike[:MAX_ITEMS]))
        more = phrases.format_omitted(len(alike), "cell")
        if more:
            notes.append(more)
        yield document.Item(cause, tone, notes=tuple(notes))
    yield from phrases.rest(len(groups), "cause")


def _cause(change: Difference) -> str:
    """Return the outcome of TO, after that of FROM if FROM failed, too."""
    after = _outcome(change.pair.after)
    before = change.pair.before
    if before is None or before.verdict is Verdict.COMPILES:
        cause = after
    else:
        cause = f"{_outcome(before)} → {after}"
    if change.is_waived:
        cause += " (waived)"
    return cause


def _outcome(record: Record | None) -> str:
    if record is None:
        return "nothing"
    if record.verdict is Verdict.FAILS:
        title = RULES[record.code].title if record.code in RULES else ""
        line = _cut(record.message.partition("\n")[0])
        return " ".join(filter(None, (record.code, f"{title}:" if title else "", line)))
    return phrases.beside(record.verdict.value, record.reason)


def _cut(text: str) -> str:
    if len(text) <= _MESSAGE:
        return text
    return f"{text[: _MESSAGE - 1].rstrip()}…"


def _where(change: Difference) -> str:
    record = change.record
    parts = (
        kernel_name(record.kernel),
        parameters(record.cell),
        record.dtype,
        record.target,
        settings(record.options),
    )
    cell = " · ".join(filter(None, parts))
    if not change.pair.exact:
        cell += " · best of each side"
    return f"{cell} · {record.key[:12]}"


def _fixed_cells(result: Comparison) -> Iterator[Part]:
    changes = result.of(DifferenceKind.MENDED)
    groups = phrases.group_by(changes, lambda change: _outcome(change.pair.before))
    lines = []
    for cause, alike in list(groups.items())[:MAX_ITEMS]:
        lines.append(f"{_kernels(alike)}: was {cause}")
    yield from phrases.items("Mended", lines, Tone.GOOD)
    yield from phrases.rest(len(groups), "cause")


def _kernels(changes: Iterable[Difference]) -> str:
    """Return kernels with their dtypes: `chunk_fwd_o (bf16, fp16), chunk_fwd_h (bf16)`."""
    dtypes: dict[str, dict[str, None]] = {}
    for change in changes:
        of_kernel = dtypes.setdefault(change.kernel, {})
        if change.record.dtype:
            of_kernel[change.record.dtype] = None
    names = []
    for kernel, of_kernel in dtypes.items():
        names.append(phrases.beside(kernel_name(kernel), ", ".join(of_kernel)))
    return ", ".join(some(names, phrases.MAX_KERNELS, "{} more kernels"))


def _reasons(heading: str, changes: Sequence[Difference]) -> Iterator[Part]:
    """Yield kernels by the reason why they cannot be compared."""
    groups = phrases.group_by(changes, lambda change: change.reason or "no reason recorded")
    if groups:
        yield document.Heading(heading)
    for reason, alike in list(groups.items())[:MAX_ITEMS]:
        yield document.Item(f"{count_noun(len(alike), 'cell')}: {reason}", notes=(_kernels(alike),))
    yield from phrases.rest(len(groups), "reason")


def _slower(result: Comparison) -> Iterator[Part]:
    slower = result.slower
    lines = []
    for change in slower[:MAX_ITEMS]:
        before, after = change.pair.before, change.pair.after
        assert before is not None and after is not None
        took = f"{before.seconds:.1f} s → {after.seconds:.1f} s"
        lines.append(f"{took}: {_where(change)}")
    yield from phrases.items("Slower to compile", lines, Tone.DOUBT)
    yield from phrases.rest(len(slower), "slower compile")


def _measured(result: Comparison) -> Iterator[Part]:
    """Yield what is slower and what is wrong on each GPU where both releases were measured."""
    for each in result.measured:
        ratios = [*each.slower, *each.faster]
        if not (ratios or each.wrong):
            continue
        yield document.Heading(f"On {each.card}, driver {each.driver}, {each.date}")
        for wrong in each.wrong:
            text = f"{kernel_name(wrong.kernel)} computes a wrong result"
            yield document.Item(text, Tone.BAD, (wrong.reason,))
        rows = []
        for ratio in ratios[:MAX_ITEMS]:
            tone = Tone.BAD if ratio.change == "slower" else Tone.GOOD
            words = Words(f"{ratio.ratio:.2f} {ratio.change}", tone)
            rows.append(row(ratio.name, ratio.dtype or "–", words, f"{ratio.microseconds:,.1f} µs"))
        if rows:
            yield document.Table((each.unit, "dtype", "ratio", "time"), tuple(rows))
        yield from phrases.rest(len(ratios), "change")


def _unchanged_cells(result: Comparison) -> Iterator[Part]:
    failing, skipped_cells = [], []
    unchanged = [each for each in result.of(DifferenceKind.UNCHANGED) if not each.slower]
    for change in unchanged:
        if change.record.verdict is Verdict.FAILS:
            failing.append(change)
        if change.pair.note:
            skipped_cells.append(change)
    same = len(unchanged) - len(failing)
    verb = "compile"
    if same == 1:
        verb = "compiles"
    if same:
        text = f"Unchanged: {count_noun(same, 'cell')} that {verb} on both sides"
        yield document.Paragraph(text, Tone.FAINT)
    lines = []
    by_reason = phrases.group_by(skipped_cells, lambda change: change.reason)
    for reason, alike in by_reason.items():
        lines.append(f"{_kernels(alike)}: {reason}")
    yield from phrases.items("Skipped by the autotuner", lines, Tone.FAINT)
    lines = []
    groups = phrases.group_by(failing, lambda change: _outcome(change.pair.after))
    for cause, alike in list(groups.items())[:MAX_ITEMS]:
        lines.append(f"{_kernels(alike)}: {cause}")
    yield from phrases.items("Fails on both sides", lines, Tone.FAINT)
    yield from phrases.rest(len(groups), "cause")


def _advisories(result: Comparison) -> Iterator[Part]:
    """Yield each advisory once, with the sides that it concerns."""
    releases: dict[str, dict[str, None]] = {}
    for side, advisories in zip((result.before, result.after), result.advisories):
        for advisory in advisories:
            releases.setdefault(advisory.text, {})[side.release] = None
    lines = []
    for text, names in releases.items():
        lines.append(f"{' and '.join(names)}: {text}")
    yield from phrases.items("Advisories", lines, Tone.DOUBT)


def _package(result: Comparison) -> Iterator[Part]:
    """Yield the package's own statements, and the releases that they apply to."""
    lines = []
    for word in result.package[:MAX_ITEMS]:
        if word.kind == "requires":
            lines.append(_requirement(result, word.text, (word.under_from, word.under_to)))
        else:
            sides = _said_under(result, (word.under_from, word.under_to))
            lines.append(f"{word.kind} under {sides}: {word.text}")
    yield from phrases.items("The package itself", lines)
    yield from phrases.rest(len(result.package), "line")


def _requirement(result: Comparison, text: str, lacking: tuple[bool, bool]) -> str:
    if not any(lacking):
        return f"{text}: both sides satisfy it"
    return f"{text}: {_said_under(result, lacking)} does not satisfy it"


def _said_under(result: Comparison, under: tuple[bool, bool]) -> str:
    sides = (result.before.release, result.after.release)
    return " and ".join(side for side, holds in zip(sides, under) if holds)


def _coverage(result: Comparison) -> Iterator[Part]:
    lines = []
    for entry in result.coverage:
        kernels = f"{entry['recorded']} of {entry['launchable']} launchable kernels recorded"
        lines.append(f"{entry['toolchain']}: {kernels} in {entry['package']}")
    yield from phrases.items("Coverage", lines)


def _fallbacks(result: Comparison) -> Iterator[Part]:
    lines = []
    for entry in phrases.advice(result.fallbacks)[:MAX_ITEMS]:
        uses = " or ".join(entry.uses)
        lines.append(f"{kernel_name(entry.kernel)}: use {uses}")
    yield from phrases.items(f"Fallbacks under {result.after.release}", lines, Tone.GOOD)


def _commands(result: Comparison, command: str) -> list[str]:
    """Return the commands to type next; without a regression the comparison of all cells."""
    commands = list(result.in_words.next)
    if result.is_narrowed and command and not result.of(DifferenceKind.REGRESSED):
        others = re.sub(r" --configs[ =]\w+", "", command)
        commands.insert(0, f"{others} --configs own")
    return commands


def _annotations(result: Comparison) -> Iterator[document.Annotation]:
    """Yield regressions as errors, advisories against TO as warnings, and the result."""
    for change in result.of(DifferenceKind.REGRESSED):
        level = "error"
        if change.is_waived:
            level = "notice"
        record = change.record
        title = f"regressed: {_where(change)}"
        places = (result.locate(record.cell.kernel),)
        yield document.Annotation(
            level, title, _cause(change), places, record.code, record.signature
        )
    for advisory in result.advisories[1][:_ANNOTATIONS]:
        yield document.Annotation("warning", f"advisory {advisory.id}", advisory.text)
    yield document.Annotation("notice", "flacheck diff", result.answer)


def _cases(result: Comparison) -> Iterator[document.Case]:
    """Yield a case for each change; only what counts against TO fails."""
    for change in (*result.refusals, *result.changes):
        record = change.record
        outcome = CaseOutcome.SKIPPED
        if change.counts_against:
            outcome = CaseOutcome.FAILED
        elif change.pair.after is not None and change.pair.after.verdict is Verdict.COMPILES:
            outcome = CaseOutcome.PASSED
        module, _, name = record.kernel.rpartition(":")
        words = (name, parameters(record.cell), record.dtype, settings(record.options))
        text = f"{change.kind.value.replace('_', ' ')}: {change.reason or _cause(change)}"
        yield document.Case(
            suite=f"{result.after.release} {record.target}",
            group=module or record.package or "flacheck",
            name=" ".join(filter(None, words)),
            outcome=outcome,
            text=text,
            details=f"{text}\ncell {record.key[:12]}",
            seconds=record.seconds,
            place=result.locate(record.cell.kernel),
        )


def _pins(result: Comparison) -> Iterator[tuple[str, str]]:
    for requirement in filter(None, (result.pin.torch, result.pin.triton, result.pin.toolchain)):
        yield "pin", requirement
