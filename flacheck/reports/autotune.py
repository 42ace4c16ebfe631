"""The report of `flacheck autotune`: configurations, faults, costs and alternatives."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flacheck.capabilities.autotune.emit import FlaFile
from flacheck.capabilities.autotune.results import (
    AutotuneDocument,
    ExaminedConfig,
    Fate,
    KeyFault,
    TunerResult,
)
from flacheck.evidence.analysis.order import count_noun, kernel_name, settings, short, some
from flacheck.model import Verdict
from flacheck.reports import document
from flacheck.reports.document import Part, Tone, Words, row
from flacheck.reports.numbers import in_words
from flacheck.reports.phrases import advice, beside

_RESOURCES = ("registers", "stack", "spills")
_HEADINGS = (
    *("", "constants", "warps", "stages", "verdict", "autotuner"),
    *("shared", "regs", "stack", "spills", "occupancy", "s"),
)
_TIMES = ("", "timed", "median ms", "spread", "error")
# The word for one configuration, the word for several, and the tone.
_FATES = {
    Fate.RUNS: ("runs", "run", Tone.GOOD),
    Fate.SKIPPED: ("skipped", "skipped", Tone.DOUBT),
    Fate.ENDS_RUN: ("ends run", "end run", Tone.BAD),
    None: ("unknown", "unknown", Tone.DOUBT),
}
_OPTIONS = ("num_warps", "num_stages")
# The column is narrow, and the two limits are the frequent ones.
_LIMITS = {"shared memory": "smem", "registers": "regs"}
# The number of configurations that a line names.
_MAX_PRUNED = 3
_KIB = 1024
# Digits of a cell's key in a command, as in the other reports.
_KEY_DIGITS = 12


def report(kernel: str, results: Sequence[TunerResult]) -> document.Report:
    """Return the document of the results for `kernel`, the glob of the command."""
    documents = tuple(result.document() for result in results)
    value = AutotuneDocument("flacheck.autotune/1", kernel, documents).to_json()
    return document.Report(_parts(results), in_words(value))


def fla_lines(files: Sequence[FlaFile]) -> Iterator[str]:
    """Yield the keys of each file for FLA, and the omitted entries with their reasons."""
    for file in files:
        for entry in file.entries:
            if entry.left_out:
                yield f"{file.function}: left out {entry.sizes}: {entry.left_out}"
        if file.sizes:
            number = count_noun(len(file.sizes), "key")
            yield f"{file.function}: {number}: {'; '.join(file.sizes)}"


def _parts(results: Sequence[TunerResult]) -> Iterator[Part]:
    # The title has the counts of all results.
    fates: list[Fate | None] = []
    names = set()
    faults = 0
    tone = Tone.GOOD
    for result in results:
        names.add(result.kernel)
        faults += len(result.keys)
        for config in result.configs:
            fates.append(config.fate)
        if result.is_finding:
            tone = Tone.BAD
    counts = []
    for fate, (one, many, _) in _FATES.items():
        if fate in fates:
            counts.append(count_noun(fates.count(fate), one, many))
    kernels = count_noun(len(names), "kernel")
    configs = count_noun(len(fates), "configuration")
    line = f"{kernels}, {configs}: {', '.join(counts) or 'none compiled'}"
    if faults:
        line += f" · {count_noun(faults, 'key fault')}"
    yield document.Title("flacheck autotune", line, tone)
    for result in results:
        yield from _result(result)


def _result(result: TunerResult) -> Iterator[Part]:
    place = (short(result.toolchain), result.target, result.dtype)
    yield document.Heading(" · ".join(filter(None, (kernel_name(result.kernel), *place))))
    if result.ends:
        yield document.Item(f"the run ends: {result.ends}", Tone.BAD)
    if result.configs:
        rows = map(_row, itertools.count(1), result.configs)
        yield document.Table(_HEADINGS, tuple(rows), document.Fit.SPLIT)
    yield from _causes(result)
    for fault in result.keys:
        yield from _fault(fault)
    # The rest is information, not a fault.
    if result.pruned:
        names = "; ".join(some(list(map(_config, result.pruned)), _MAX_PRUNED))
        text = f"{len(result.pruned)} pruned by the kernel itself: {names}"
        yield document.Item(text, Tone.FAINT)
    if result.unkeyed:
        names = ", ".join(result.unkeyed)
        yield document.Item(f"constexprs in no key, without a known fault: {names}", Tone.FAINT)
    yield from _times(result)
    for each in advice(result.fallbacks):
        text = f"instead of {'; '.join(each.failing)}: {' or '.join(each.uses)}"
        yield document.Item(text, Tone.GOOD)


def _row(number: int, config: ExaminedConfig) -> tuple[Words, ...]:
    """Return the cells of a configuration, one for each heading."""
    record, resources, values = config.record, config.record.resources, config.config
    fate, _, tone = _FATES[config.fate]
    shared = occupancy = "–"
    if resources["shared"] is not None:
        shared = f"{resources['shared'] / _KIB:.0f}"
    if config.occupancy is not None:
        most = config.occupancy
        occupancy = f"{most.fraction:.0%} {most.blocks}× {_LIMITS.get(most.limit, most.limit)}"
    return row(
        str(number),
        _config(values, *_OPTIONS) or "–",
        *(_number(values.get(name)) for name in _OPTIONS),
        record.code or record.verdict.value,
        Words(fate, tone),
        f"{shared}/{resources['shared_limit'] / _KIB:.0f}K",
        *(_number(resources[name]) for name in _RESOURCES),
        occupancy,
        f"{record.seconds:.1f}",
    )


def _config(values: Mapping[str, Any], *hidden: str) -> str:
    """Return the options but the hidden ones: `BK=64 num_warps=4 num_stages=2`."""
    options = dict(values.get("kwargs", {}))
    for name, value in values.items():
        if name != "kwargs" and name not in hidden:
            options[name] = value
    return settings(options)


def _number(value: int | None) -> str:
    if value is None:
        return "–"
    return str(value)


def _causes(result: TunerResult) -> Iterator[Part]:
    """Yield the first line of each failure or doubt with its configurations.

    A failure also has the command that reduces it.
    """
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
        yield document.Item(f"{write_ranges(places)}: {lines[cause]}", Tone.BAD)


def write_ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: `1, 4–6`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    texts = []
    for first, last in runs:
        if first == last:
            texts.append(str(first))
        else:
            texts.append(f"{first}–{last}")
    return ", ".join(texts)


def _fault(fault: KeyFault) -> Iterator[Part]:
    place = fault.file and f"{fault.file}:{fault.line}"
    yield document.Item(beside(f"{fault.fault}: {fault.key} {fault.why}", place), Tone.BAD)
    if fault.fix:
        yield document.Listing(fault.fix.rstrip("\n"), "python")


def _times(result: TunerResult) -> Iterator[Part]:
    """Yield the timings, the cost of fallbacks, and the rank correlation of the estimates."""
    rows = []
    for number, config in enumerate(result.configs, 1):
        if config.timing:
            rows.append(_timing_row(number, config))
    if rows:
        yield document.Table(_TIMES, tuple(rows))
    if result.not_timed:
        yield document.Item(f"not timed: {result.not_timed}")
    for price in result.prices:
        if price.times_best is not None:
            takes = f"{price.median_ms:.3f} ms, {price.times_best:.2f} × the best"
            yield document.Item(f"{settings(price.use)} instead takes {takes}")
    if result.rank is not None:
        text = f"rank correlation of the estimates with the times: {result.rank:.2f} (Spearman)"
        yield document.Item(text)


def _timing_row(number: int, config: ExaminedConfig) -> tuple[Words, ...]:
    """Return the milliseconds with spread and error, or the reason why they are missing."""
    time, name = config.timing, _config(config.config)
    assert time is not None
    if time.median_ms is None:
        return row(str(number), name, "–", time.failed or "", "–")
    error = "–"
    if time.error is not None:
        error = f"{time.error:.1e}"
    spread = f"{time.low_ms:.3f}–{time.high_ms:.3f}"
    return row(str(number), name, f"{time.median_ms:.3f}", spread, error)
