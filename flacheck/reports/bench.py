"""The report of timed forms: a table for each operator and the winner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flacheck.capabilities.bench.results import FormsCompared, FormTiming, Spread
from flacheck.evidence.analysis.order import count_noun
from flacheck.reports import document
from flacheck.reports.document import Part, Tone, Words, row

_HEADINGS = (
    *("form", "batch", "length", "compile", "tuning", "warm-up", "forward ms", "backward ms"),
    *("memory", "difference"),
)


def report(result: FormsCompared) -> document.Report:
    """Return the document of timed forms."""
    return document.Report(_parts(result), result.to_json())


def _parts(result: FormsCompared) -> Iterator[Part]:
    timed = [timing for timing in result.timings if timing.forward is not None]
    line = f"{count_noun(len(timed), 'timing')} on {result.gpu}"
    tone = Tone.GOOD
    if result.differing:
        line += f"; {count_noun(len(result.differing), 'output')} differ beyond the tolerance"
        tone = Tone.BAD
    if result.interrupted:
        line += "; interrupted"
        tone = Tone.BAD if result.differing else Tone.DOUBT
    about = (
        f"Triton {result.triton}, torch {result.torch}, {result.dtype}, {result.heads} heads of "
        f"{result.head_size}; medians of {result.repeats} runs, a fifth of them below and above "
        "the range in brackets"
    )
    yield document.Title(f"flacheck bench {result.about}", line, tone, about)
    operators: dict[str, list[FormTiming]] = {}
    for timing in result.timings:
        operators.setdefault(timing.operator, []).append(timing)
    for operator, timings in operators.items():
        yield document.Heading(operator)
        rows = tuple(_row(timing, result) for timing in timings)
        yield document.Table(_HEADINGS, rows)
        yield from _winners(operator, result)
        yield from _failures(timings)
    for note in result.notes:
        yield document.Paragraph(note, Tone.FAINT)


def _row(timing: FormTiming, result: FormsCompared) -> tuple[Words, ...]:
    difference = Words("")
    if timing.difference is not None:
        tone = Tone.BAD if timing in result.differing else Tone.PLAIN
        difference = Words(f"{timing.difference:.1e} from {timing.compared_with}", tone)
    backward = Words(_spread(timing.backward))
    if timing.backward_failed:
        backward = Words("fails", Tone.BAD)
    memory = "" if timing.memory_mb is None else f"{timing.memory_mb:,.0f} MB"
    return row(
        timing.form,
        f"{timing.batch:,}",
        f"{timing.length:,}",
        _seconds(timing.compile_s),
        _seconds(timing.tuning_s),
        _seconds(timing.warm_up_s),
        Words("fails", Tone.BAD) if timing.failed else _spread(timing.forward),
        backward,
        memory,
        difference,
    )


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"{spread.median:.3f}\n({spread.low:.3f}–{spread.high:.3f})"


def _winners(operator: str, result: FormsCompared) -> Iterator[Part]:
    for winner in result.winners:
        if winner.operator == operator:
            what = "forward and backward" if winner.backward else "forward"
            line = f"batch {winner.batch}: {winner.form} wins from length {winner.from_length:,} on"
            yield document.Item(line, Tone.STRONG, (f"by the medians of {what}",))


def _failures(timings: Sequence[FormTiming]) -> Iterator[Part]:
    messages: dict[tuple[str, str], list[str]] = {}
    for timing in timings:
        message = timing.failed or timing.backward_failed
        if message:
            what = f"{timing.function}{'' if timing.failed else ', backward'}"
            size = f"batch {timing.batch}, length {timing.length:,}"
            messages.setdefault((what, message), []).append(size)
    for (what, message), sizes in messages.items():
        yield document.Item(f"{what} fails: {message}", Tone.BAD, (", ".join(sizes),))
