"""The report of an examination: each autotuner's configurations, then what is wrong, what it costs,
and what to use instead."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.order import count_noun, kernel_name, settings, short, some
from flacheck.capabilities.autotune.emit import FlaFile
from flacheck.capabilities.autotune.examined import (
    Cost,
    ExaminedConfig,
    Fate,
    KeyFault,
    TunerResult,
)
from flacheck.model import Verdict
from flacheck.reports import document
from flacheck.reports.document import Part, Tone, Words, row
from flacheck.reports.numbers import in_words
from flacheck.reports.phrases import advice, beside

FORMATS = ("table", "json", "markdown")
SCHEMA = "flacheck.autotune/1"
_RESOURCES = ("registers", "stack", "spills")
_HEADINGS = (
    *("", "constants", "warps", "stages", "verdict", "autotuner"),
    *("shared", "regs", "stack", "spills", "occupancy", "s"),
)
_TIMES = ("", "timed", "median ms", "spread", "error")
# What is said of one configuration, of several, and how.
_FATES = {
    Fate.RUNS: ("runs", "run", Tone.GOOD),
    Fate.SKIPPED: ("skipped", "skipped", Tone.DOUBT),
    Fate.ENDS_RUN: ("ends run", "end run", Tone.BAD),
    None: ("unknown", "unknown", Tone.DOUBT),
}
_OPTIONS = ("num_warps", "num_stages")
# The column is narrow, and the two limits are the frequent ones.
_LIMITS = {"shared memory": "smem", "registers": "regs"}
# Configurations that a line names.
_PRUNED = 3
_KIB = 1024
# Digits of a cell's key in a command, as in the other reports.
_KEY_DIGITS = 12


def report(kernel: str, results: Sequence[TunerResult]) -> document.Report:
    """The results for `kernel`, the glob that was asked."""
    shown = [in_words(result.to_json()) for result in results]
    return document.Report(_parts(results), {"schema": SCHEMA, "kernel": kernel, "results": shown})


def fla_lines(files: Sequence[FlaFile]) -> Iterator[str]:
    """Yield the keys of each file for FLA, and what was left out."""
    for file in files:
        for entry in file.entries:
            if entry.left_out:
                yield f"{file.function}: left out {entry.sizes}: {entry.left_out}"
        if file.sizes:
            number = count_noun(len(file.sizes), "key")
            yield f"{file.function}: {number}: {'; '.join(file.sizes)}"


def _parts(results: Sequence[TunerResult]) -> Iterator[Part]:
    # One line with what came out.
    fates = [config.fate for result in results for config in result.configs]
    counts = [(fates.count(fate), one, many) for fate, (one, many, _) in _FATES.items()]
    said = ", ".join(count_noun(*count) for count in counts if count[0])
    kernels = count_noun(len({result.kernel for result in results}), "kernel")
    configs = count_noun(len(fates), "configuration")
    line = f"{kernels}, {configs}: {said or 'none compiled'}"
    faults = sum(len(result.keys) for result in results)
    if faults:
        line += f" · {count_noun(faults, 'key fault')}"
    tone = Tone.GOOD
    if any(result.is_finding for result in results):
        tone = Tone.BAD
    yield document.Title("flacheck autotune", line, tone)
    for result in results:
        yield from _result(result)


def _result(result: TunerResult) -> Iterator[Part]:
    place = (short(result.toolchain), result.target, result.dtype)
    yield document.Heading(" · ".join(filter(None, (kernel_name(result.kernel), *place))))
    if result.ends:
        yield document.Item(f"the run ends: {result.ends}", Tone.BAD)
    if result.configs:
        rows = (_row(number, config) for number, config in enumerate(result.configs, 1))
        yield document.Table(_HEADINGS, tuple(rows), document.Fit.SPLIT)
    yield from _causes(result)
    for fault in result.keys:
        yield from _fault(fault)
    if result.cost:
        yield from _cost(result.cost)
    # What is worth knowing, and no fault.
    if result.pruned:
        named = "; ".join(some([_config(each) for each in result.pruned], _PRUNED))
        said = f"{len(result.pruned)} pruned by the kernel itself: {named}"
        yield document.Item(said, Tone.FAINT)
    if result.unkeyed:
        named = ", ".join(result.unkeyed)
        yield document.Item(f"constexprs in no key, in which no harm is seen: {named}", Tone.FAINT)
    yield from _times(result)
    for each in advice(result.fallbacks):
        said = f"instead of {'; '.join(each.failing)}: {' or '.join(each.uses)}"
        yield document.Item(said, Tone.GOOD)


def _row(number: int, examined: ExaminedConfig) -> tuple[Words, ...]:
    """A configuration in as many words as there are headings."""
    record, held, values = examined.record, examined.record.resources, examined.config
    fate, _, tone = _FATES[examined.fate]
    shared = occupancy = "–"
    if held["shared"] is not None:
        shared = f"{held['shared'] / _KIB:.0f}"
    if examined.occupancy is not None:
        most = examined.occupancy
        occupancy = f"{most.fraction:.0%} {most.blocks}× {_LIMITS.get(most.limit, most.limit)}"
    return row(
        str(number),
        _config(values, *_OPTIONS) or "–",
        *(_number(values.get(name)) for name in _OPTIONS),
        record.code or record.verdict.value,
        Words(fate, tone),
        f"{shared}/{held['shared_limit'] / _KIB:.0f}K",
        *(_number(held[name]) for name in _RESOURCES),
        occupancy,
        f"{record.seconds:.1f}",
    )


def _config(values: Mapping[str, Any], *hidden: str) -> str:
    """`BK=64 num_warps=4 num_stages=2`, without the hidden options."""
    options = {name: value for name, value in values.items() if name not in ("kwargs", *hidden)}
    return settings({**values.get("kwargs", {}), **options})


def _number(value: int | None) -> str:
    if value is None:
        return "–"
    return str(value)


def _causes(result: TunerResult) -> Iterator[Part]:
    """Yield the first line of each failure or doubt with its configurations, and the command that
    reduces a failure."""
    lines: dict[str, str] = {}
    numbers: dict[str, list[int]] = {}
    for number, config in enumerate(result.configs, 1):
        if not config.compiles:
            record = config.record
            line = record.message.partition("\n")[0] or record.reason or "no message"
            cause = record.signature or line
            line = f"{record.code or record.verdict.value} {line}"
            if record.verdict is Verdict.FAILS:
                line += f" · flacheck repro {record.key[:_KEY_DIGITS]}"
            lines.setdefault(cause, line)
            numbers.setdefault(cause, []).append(number)
    for cause, places in numbers.items():
        yield document.Item(f"{_ranges(places)}: {lines[cause]}", Tone.BAD)


def _ranges(numbers: Sequence[int]) -> str:
    """`1, 4–6`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join("–".join(map(str, sorted(set(run)))) for run in runs)


def _fault(fault: KeyFault) -> Iterator[Part]:
    place = fault.file and f"{fault.file}:{fault.line}"
    yield document.Item(beside(f"{fault.fault}: {fault.key} {fault.why}", place), Tone.BAD)
    if fault.fix:
        yield document.Listing(fault.fix.rstrip("\n"), "python")


def _cost(cost: Cost) -> Iterator[Part]:
    """What the first run waits for, what shortens it, and which configurations gain nothing."""
    configs = count_noun(cost.configs, "configuration")
    line = f"{configs} × {count_noun(cost.keys, 'key')}: the first run compiles for "
    line += f"{_seconds(cost.first_run)}; with {count_noun(cost.workers, 'compiler')} at once "
    line += _seconds(cost.warmed)
    if cost.droppable:
        gone = len(cost.droppable)
        line += f"; without those that gain nothing ({gone}) {_seconds(cost.pruned)}"
    yield document.Item(line)
    # Failures stand in the table already.
    gains = group_by_key(
        (why, place + 1) for place, why in cost.droppable.items() if why != "fails"
    )
    for why, numbers in gains.items():
        yield document.Item(f"{_ranges(numbers)}: {why}", Tone.FAINT)


def _seconds(value: float) -> str:
    """`12.3 s`, `4 min`."""
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min"


def _times(result: TunerResult) -> Iterator[Part]:
    """The times, or why there are none; what fallbacks cost; whether the estimates' order held."""
    numbered = enumerate(result.configs, 1)
    rows = tuple(_timed(number, config) for number, config in numbered if config.timing)
    if rows:
        yield document.Table(_TIMES, rows)
    if result.not_timed:
        yield document.Item(f"not timed: {result.not_timed}")
    for price in result.prices:
        if price.times_best is not None:
            takes = f"{price.median_ms:.3f} ms, {price.times_best:.2f} × the best"
            yield document.Item(f"{settings(price.use)} instead takes {takes}")
    if result.rank is not None:
        said = f"rank correlation of the estimates with the times: {result.rank:.2f} (Spearman)"
        yield document.Item(said)


def _timed(number: int, examined: ExaminedConfig) -> tuple[Words, ...]:
    """The milliseconds, their spread, and the error; or why there are none."""
    time, name = examined.timing, _config(examined.config)
    assert time is not None
    if time.median_ms is None:
        return row(str(number), name, "–", time.failed or "", "–")
    error = "–"
    if time.error is not None:
        error = f"{time.error:.1e}"
    spread = f"{time.low_ms:.3f}–{time.high_ms:.3f}"
    return row(str(number), name, f"{time.median_ms:.3f}", spread, error)
