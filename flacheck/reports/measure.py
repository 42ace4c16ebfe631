"""The report of a measurement: what is slower, what is wrong, what could not be compared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from flacheck.evidence.analysis.order import count_noun
from flacheck.evidence.measured.results import (
    LaunchResult,
    MeasureDocument,
    Ratio,
    ReleaseSummary,
    Result,
    State,
)
from flacheck.reports import document
from flacheck.reports.document import Part, Tone, Words, row

# Rows of a table: the largest changes. JSON has all.
_MOST_ROWS = 20
_CHANGE_TONES = {"slower": Tone.BAD, "faster": Tone.GOOD, "equal": Tone.PLAIN}


def report(result: MeasureDocument) -> document.Report:
    """Return the document of a measurement."""
    return document.Report(_parts(result), result.to_json())


def _parts(result: MeasureDocument) -> Iterator[Part]:
    tone = Tone.GOOD
    if any(summary.slower_operators or summary.slower for summary in result.summaries):
        tone = Tone.DOUBT
    if result.wrong:
        tone = Tone.BAD
    about = (
        f"driver {result.card.driver}, {count_noun(len(result.launches), 'launch', 'launches')}, "
        f"times beside {result.toolchains[0]}; slower: a ratio above 1.1 and beyond three spreads "
        "of the same binary timed twice"
    )
    yield document.Title(f"flacheck measure {result.about}", describe(result), tone, about)
    yield from _wrong(result)
    yield document.Heading("Releases")
    rows = tuple(_summary_row(summary) for summary in result.summaries)
    headings = ("release", "compared", "slower", "faster", "geometric mean", "total", "results")
    yield document.Table(headings, rows)
    yield from _changes("Operators", result.operators)
    yield from _changes("Kernels", result.kernels)
    yield from _sizes(result.launches)
    yield from _not_comparable(result)


def describe(result: MeasureDocument) -> str:
    """Return what is slower and what is wrong, in one sentence."""
    parts = []
    for summary in result.summaries[1:]:
        unit, slower, count = "operators", summary.slower_operators, summary.operators
        if not count:
            unit, slower, count = "kernels", summary.slower, summary.kernels
        names = _slowest(result, summary.toolchain, unit)
        parts.append(f"{summary.toolchain}: {slower} of {count} {unit} slower{names}")
    wrong = "all results agree"
    if result.wrong:
        wrong = count_noun(len(result.wrong), "wrong result")
    return f"on {result.card.name}: {'; '.join([*parts, wrong])}"


def _slowest(result: MeasureDocument, toolchain: str, unit: str) -> str:
    """Return the two operators or kernels that became slowest, in parentheses."""
    ratios: Sequence[Ratio] = getattr(result, unit)
    slower = [each for each in ratios if each.toolchain == toolchain and each.change == "slower"]
    slower.sort(key=lambda each: -each.ratio)
    if not slower:
        return ""
    return f" ({', '.join(f'{_last(each.name)} {each.ratio:.2f}' for each in slower[:2])})"


def _last(name: str) -> str:
    return name.replace(":", ".").rpartition(".")[2]


def _wrong(result: MeasureDocument) -> Iterator[Part]:
    if result.wrong:
        yield document.Heading("Wrong results (FC706)")
    for launch, each in result.wrong:
        text = f"{launch.kernel} under {each.toolchain}: {each.state.value}"
        yield document.Item(text, Tone.BAD, tuple(_notes(launch, each)))


def _notes(launch: LaunchResult, result: Result) -> Iterator[str]:
    if result.reason:
        yield result.reason
    yield f"{launch.dtype}, grid {launch.grid}, {_config(result)}, inputs {launch.distribution}"
    if launch.judge:
        yield f"judged by {launch.judge}"
    if launch.by:
        yield f"launched by {launch.by}"
    yield f"to reproduce: flacheck repro {result.key[:12]}"


def _config(result: Result) -> str:
    parts = {**result.config.get("kwargs", {}), **result.config}
    parts.pop("kwargs", None)
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)


def _summary_row(summary: ReleaseSummary) -> tuple[Words, ...]:
    states = ", ".join(f"{count} {state}" for state, count in sorted(summary.states.items()))
    if summary.geometric_mean is None:
        return row(summary.toolchain, "", "", "", "", "", states)
    return row(
        summary.toolchain,
        f"{summary.kernels}",
        Words(f"{summary.slower}", Tone.BAD if summary.slower else Tone.PLAIN),
        f"{summary.faster}",
        f"{summary.geometric_mean:.3f}",
        f"{summary.total:.3f}",
        states,
    )


def _changes(title: str, ratios: Sequence[Ratio]) -> Iterator[Part]:
    """Yield the largest changes, slower ones first."""
    changes = [each for each in ratios if each.change != "equal"]
    if not changes:
        return
    yield document.Heading(title)
    changes.sort(key=lambda each: (each.change != "slower", -abs(each.ratio - 1), each.name))
    rows = []
    for each in changes[:_MOST_ROWS]:
        change = Words(f"{each.ratio:.2f} {each.change}", _CHANGE_TONES[each.change])
        time = f"{each.microseconds:,.1f} µs"
        rows.append(row(each.name, each.dtype or "", each.toolchain, change, time))
    yield document.Table(("name", "dtype", "release", "ratio", "time"), tuple(rows))
    if len(changes) > _MOST_ROWS:
        rest = len(changes) - _MOST_ROWS
        yield document.Paragraph(f"and {rest} more: --format json", Tone.FAINT)


def _sizes(launches: Sequence[LaunchResult]) -> Iterator[Part]:
    """Yield the sizes of the launches, the slowest first."""
    yield document.Heading("Sizes")
    rows = []
    for each in sorted(launches, key=lambda each: -(each.quickest or 0.0))[:_MOST_ROWS]:
        name = max(each.shapes, key=lambda path: math.prod(each.shapes[path]), default="")
        largest = f"{name} {'×'.join(map(str, each.shapes.get(name, ())))}"
        time = f"{each.quickest:,.1f} µs" if each.quickest else ""
        memory = f"{each.bytes / 1e6:,.1f} MB"
        columns = (each.kernel, each.dtype or "", "×".join(map(str, each.grid)), largest)
        rows.append(row(*columns, memory, time))
    headings = ("kernel", "dtype", "grid", "largest tensor", "memory", "quickest")
    yield document.Table(headings, tuple(rows))
    if len(launches) > _MOST_ROWS:
        rest = count_noun(len(launches) - _MOST_ROWS, "launch", "launches")
        yield document.Paragraph(f"and {rest} more: --format json", Tone.FAINT)


def _not_comparable(result: MeasureDocument) -> Iterator[Part]:
    """Yield the reasons why results were not compared, with their numbers."""
    reasons = Counter[str]()
    for launch in result.launches:
        for each in launch.results:
            if each.state is State.NOT_COMPARABLE:
                reasons[each.reason or "without a reason"] += 1
    for reason, count in reasons.most_common(_MOST_ROWS):
        yield document.Paragraph(f"not comparable, {count}: {reason}", Tone.FAINT)
    if result.left_out:
        kernels = count_noun(len(result.left_out), "kernel")
        yield document.Paragraph(f"left out: {kernels} without a launch to repeat", Tone.FAINT)
