"""The report of a run: a matrix at a glance, what fails and why, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flacheck.analysis import Grid, RunView, Square, Summary, grid
from flacheck.analysis.grid import KernelOf, Row
from flacheck.analysis.groups import SignatureGroup
from flacheck.analysis.known_good import grouped
from flacheck.analysis.order import kernel_name, settings, short, some
from flacheck.analysis.slow import CODE as SLOW
from flacheck.model import Json, Record, Verdict
from flacheck.reports import document
from flacheck.reports.document import Part, Tone, Words, row
from flacheck.reports.phrases import (
    SHOWN,
    advice,
    counted,
    explained,
    failure,
    items,
    omitted,
    places,
    sorted_places,
    title_of,
    where,
)
from flacheck.rules import RULES
from flacheck.tables.targets import TARGETS

SCHEMA = "flacheck.run/1"
LEGEND = (
    "8/12: 8 of 12 compile · FC… fails · (FC…) fails, but the autotuner skips it · "
    "? unknown · – skipped"
)
# Above so many kernels, those without anything to say share one line.
_ROWS = 12
# A fallback's settings and its alternatives: the nearest are enough to go on.
_USES = 3
# GitHub shows ten annotations of a kind.
_ANNOTATIONS = 10


@dataclass(frozen=True)
class CellsReason:
    """Why cells are unknown or skipped."""

    text: str
    code: str | None
    count: int
    place: str


def report(view: RunView) -> document.Report:
    """The run as a document; its records are read as often as a format needs them."""
    summary = {"summary": view.summary.to_json()}
    before = {"schema": SCHEMA, "run": view.run}
    value = document.Streamed(before, "records", _records(view), summary)
    return document.Report(_parts(view), value, _annotations(view))


def _records(view: RunView) -> Iterator[Json]:
    for record in view.records():
        yield record.to_json()


def _parts(view: RunView) -> Iterator[Part]:
    yield _title(view)
    yield from _matrix(grid(view.records()))
    yield from _failures(view.summary)
    yield from _reached(view)
    yield from _slow(view)
    yield from _reasons(view, Verdict.UNKNOWN)
    yield from _reasons(view, Verdict.SKIPPED)
    yield from _fallbacks(view.summary)
    yield from _known_good(view.summary)
    yield document.Heading("Next")
    for command in _next_commands(view):
        yield document.Item(command, code=True)


def _title(view: RunView) -> document.Title:
    run = view.run
    tone = Tone.BAD if view.summary.tally.blocking else Tone.GOOD
    about = f"flacheck {run.get('flacheck')}, Python {run.get('python')}, {run.get('platform')}"
    return document.Title(
        f"flacheck: {run.get('matrix') or 'run'}",
        _counts(view.summary),
        tone,
        f"{run.get('matrix') or 'run'} · {run.get('id')} of {run.get('started')} · {about}",
    )


def _counts(summary: Summary) -> str:
    """One line with how many cells ended how."""
    tally = summary.tally
    tolerated = sum(group.tolerated for group in summary.by_signature)
    said = (
        (tally.compiles, "compile", _aside((len(summary.slow), "slow"))),
        (tally.fails, "fail", _aside((tolerated, "tolerated"), (tally.waived, "waived"))),
        (tally.unknown, "unknown", ""),
        (tally.skipped, "skipped", ""),
    )
    counts = [_agreeing(number, word) + aside for number, word, aside in said if number]
    return f"{counted(tally.total, 'cell')}: " + ", ".join(counts)


def _agreeing(number: int, word: str) -> str:
    """`1 compiles`, `2 compile`; `1 unknown`, which is no verb."""
    if number == 1 and word in ("compile", "fail"):
        return f"1 {word}s"
    return f"{number} {word}"


def _aside(*counts: tuple[int, str]) -> str:
    said = ", ".join(f"{number} {word}" for number, word in counts if number)
    return said and f" ({said})"


# The matrix


def _matrix(made: Grid) -> Iterator[Part]:
    for target, kernels in made.targets.items():
        releases = made.asked_on(target)
        shown = _worth_showing(kernels, releases)
        headings = (_target_name(target), *map(short, releases))
        yield document.Table(headings, tuple(_rows(shown, releases)), document.Fit.SPLIT)
        rest = len(kernels) - len(shown)
        if rest:
            noun = "more kernel" if shown else "kernel"
            yield document.Paragraph(f"{counted(rest, noun)}: no failures", Tone.FAINT)
    yield document.Paragraph(LEGEND, Tone.FAINT)


def _target_name(target: str) -> str:
    """A target, with the word for those whose verdicts were never compared with a card."""
    known = TARGETS.get(target)
    return f"{target} (experimental)" if known and known.experimental else target


def _worth_showing(
    kernels: Mapping[KernelOf, Row], releases: Sequence[str]
) -> Mapping[KernelOf, Row]:
    if len(kernels) <= _ROWS:
        return kernels
    return {kernel: squares for kernel, squares in kernels.items() if _says(squares, releases)}


def _says(squares: Row, releases: Sequence[str]) -> bool:
    """Whether there is more to say of a kernel than that it compiles on each of these releases."""
    return not all(release in squares and squares[release].perfect for release in releases)


def _rows(kernels: Mapping[KernelOf, Row], releases: Sequence[str]) -> Iterator[tuple[Words, ...]]:
    last = None
    for (package, kernel), squares in kernels.items():
        if package and package != last:
            yield (Words(package, Tone.FAINT),)
        last = package
        yield row(f"  {kernel_name(kernel)}", *(_square(squares.get(each)) for each in releases))


def _square(square: Square | None) -> Words:
    """A square of the matrix in a few short lines; empty where nothing was asked."""
    if square is None:
        return Words("")
    if not square.asked:
        return Words("–", Tone.FAINT)
    if square.blocking:
        return Words(_square_text(square), Tone.BAD)
    if square.perfect:
        return Words(_square_text(square), Tone.GOOD)
    return Words(_square_text(square), Tone.DOUBT)


def _square_text(square: Square) -> str:
    if square.unknown == square.asked:
        return "?"
    codes = [code for code, _ in square.codes.most_common()]
    for code, _ in square.tolerated.most_common():
        codes.append(f"({code})" if square.compiles else code)
    lines = [f"{square.compiles}/{square.asked}", *some(codes, 2, "+{}")]
    if square.slow:
        lines.append("slow")
    if square.unknown:
        lines.append("?")
    return "\n".join(lines)


# What is wrong


def _failures(summary: Summary) -> Iterator[Part]:
    if summary.by_signature:
        yield document.Heading("Failures")
    for code, groups in grouped((group.code, group) for group in summary.by_signature).items():
        cells = f"· {counted(sum(group.count for group in groups), 'cell')}"
        if all(group.tolerated == group.count for group in groups):
            yield document.Paragraph(title_of(code), Tone.DOUBT, f"{cells}, tolerated")
        else:
            yield document.Paragraph(title_of(code), Tone.BAD, cells)
        for group in groups[:SHOWN]:
            yield failure(group.line, _place(group))
        yield from omitted(len(groups), "signature")
        yield from explained(code)


def _place(group: SignatureGroup) -> str:
    return f"{group.count} × {where(group.toolchains, group.targets, group.kernels)}"


def _reached(view: RunView) -> Iterator[Part]:
    """From which sequence length a kernel with an autotuner fault is reached, and by which layer."""
    # Only the autotuner's failures have this; a run without one is not read again for it.
    if not any(group.code.startswith("FC6") for group in view.summary.by_signature):
        return
    lines: dict[str, None] = {}
    for record in view.records():
        for finding in record.findings[:1]:
            if finding["facts"].get("first_length") is not None:
                lines[_reach(record, finding["facts"])] = None
    yield from items("Autotuner faults are reached", lines)


def _reach(record: Record, facts: Mapping[str, Any]) -> str:
    length = facts["first_length"]
    layers = [_layer(reach) for reach in facts["reached_by"] if reach["training"] == length]
    kernel = f"{kernel_name(record.kernel)} ({record.package})"
    through = layers and f" through {', '.join(some(layers, 2))}"
    return f"{kernel}: from sequence length {length}{through or ''}"


def _layer(reach: Mapping[str, Any]) -> str:
    name = reach["layer"].rpartition(":")[2]
    return f"{name} ({reach['file']}:{reach['line']})" if reach["line"] else name


def _slow(view: RunView) -> Iterator[Part]:
    slow = view.summary.slow
    if not slow:
        return
    yield document.Heading(f"Slow compiles ({SLOW})")
    shown = dict(list(slow.items())[:SHOWN])
    for record in view.records():
        if record.key in shown:
            took = shown[record.key]
            said = f"{took.seconds:.1f} s; {took.median:.1f} s on the other releases (median)"
            yield document.Item(said, notes=(_cell(record),))
    yield from omitted(len(slow), "slow compile")


def _cell(record: Record) -> str:
    named = (short(record.toolchain), record.target, kernel_name(record.kernel), record.dtype)
    return " · ".join(filter(None, (*named, settings(record.options))))


def _reasons(view: RunView, verdict: Verdict) -> Iterator[Part]:
    reasons = _reasons_of(view, verdict)
    if reasons:
        yield document.Heading(verdict.value.capitalize())
    for reason in reasons[:SHOWN]:
        yield document.Item(f"{reason.count} × {reason.text}", notes=(reason.place,))
        # A reason with a second half says itself what to do, and needs no other advice.
        if reason.code in RULES and ";" not in reason.text:
            yield document.Labelled((("remedy", RULES[reason.code].remedy),))
    yield from omitted(len(reasons), "reason")


def _reasons_of(view: RunView, verdict: Verdict) -> list[CellsReason]:
    """Why cells have this verdict, the most frequent reason first."""
    if not getattr(view.summary.tally, verdict.value):
        return []
    cells = grouped(
        ((record.reason or "no reason recorded", record.code), (record.toolchain, record.target))
        for record in view.records()
        if record.verdict is verdict
    )
    reasons = [
        CellsReason(text, code, len(pairs), places(*sorted_places(pairs)))
        for (text, code), pairs in cells.items()
    ]
    return sorted(reasons, key=lambda reason: (-reason.count, reason.text))


# What to do


def _fallbacks(summary: Summary) -> Iterator[Part]:
    entries = advice(summary.fallbacks)
    if not entries:
        return
    rows = []
    for entry in entries[:SHOWN]:
        failing = some([each for each in entry.failing if each], _USES)
        place = f"{', '.join(map(short, entry.toolchains))}\n{', '.join(entry.targets)}"
        left = "\n".join((kernel_name(entry.kernel), *failing))
        uses = Words("\n".join(entry.uses[:_USES]), Tone.GOOD, code=True)
        rows.append(row(left, Words(place, Tone.FAINT), uses))
    yield document.Heading("Fallbacks")
    yield document.Table(("failing", "on", "use instead, nearest first"), tuple(rows))
    yield from omitted(len(entries), "row")


def _known_good(summary: Summary) -> Iterator[Part]:
    yield document.Heading("Known good")
    if not summary.known_good:
        yield document.Paragraph(
            "No release: on every target, each has a failure or a cell that was not compiled to "
            "its end."
        )
        return
    yield document.Table(
        ("Triton", "torch", "targets", "cells"),
        tuple(
            row(
                each.triton,
                ", ".join(each.torch) or "–",
                ", ".join(each.targets),
                str(each.cells),
            )
            for each in summary.known_good
        ),
    )
    for each in summary.known_good:
        for advisory in dict.fromkeys(each.advisories):
            yield document.Item(f"{each.triton} compiles, but {advisory}", Tone.DOUBT)
    pins = grouped(((pin.triton, pin.torch), pin.target) for pin in summary.specifiers)
    for requirements, targets in pins.items():
        yield document.Paragraph(f"pin for {', '.join(targets)}")
        for requirement in filter(None, requirements):
            yield document.Item(f'"{requirement}"', Tone.GOOD, code=True)


def _next_commands(view: RunView) -> Iterator[str]:
    """What the first failure means, which releases have it, the same report for others to read."""
    for group in view.summary.by_signature[:1]:
        yield f"flacheck explain {group.code}"
        yield f"flacheck bisect {group.example[:12]}"
    yield f"flacheck report {view.run['id']} --format markdown"


# For a workflow


def _annotations(view: RunView) -> Iterator[document.Annotation]:
    """Failures as errors (tolerated ones as notices), unknown and slow cells as warnings, then the
    counts.
    """
    summary = view.summary
    for group in summary.by_signature[:_ANNOTATIONS]:
        level = "notice" if group.tolerated == group.count else "error"
        yield document.Annotation(level, title_of(group.code), f"{group.line}\n{_place(group)}")
    hidden = len(summary.by_signature) - _ANNOTATIONS
    if hidden > 0:
        said = f"{counted(hidden, 'more signature')} omitted (--format json has all)"
        yield document.Annotation("notice", "more failures", said)
    for reason in _reasons_of(view, Verdict.UNKNOWN)[:_ANNOTATIONS]:
        said = f"{reason.count} × {reason.text} ({reason.place})"
        yield document.Annotation("warning", "unknown", said)
    if summary.slow:
        said = counted(len(summary.slow), "slow compile")
        yield document.Annotation("warning", f"{SLOW} slow compile", said)
    yield document.Annotation("notice", "flacheck", _counts(summary))
    for pin in summary.specifiers:
        said = " ".join(filter(None, (pin.triton, pin.torch)))
        yield document.Annotation("notice", f"known good on {pin.target}", said)
