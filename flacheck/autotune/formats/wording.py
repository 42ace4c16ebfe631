"""How results are said, in every format for people alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flacheck.analysis.order import kernel_name, settings, short, some
from flacheck.autotune.examined import Cost, ExaminedConfig, Fate, KeyFault, TunerResult
from flacheck.reports.wording import advice

HEADERS = (
    "",
    "constants",
    "warps",
    "stages",
    "verdict",
    "autotuner",
    "shared",
    "regs",
    "stack",
    "spills",
    "occupancy",
    "s",
)
FATE = HEADERS.index("autotuner")
FATES = {Fate.RUNS: "runs", Fate.SKIPPED: "skipped", Fate.ENDS_RUN: "ends run", None: "?"}
_OPTIONS = ("num_warps", "num_stages")
_LIMITS = {"shared memory": "smem", "registers": "regs"}
PRUNED = 3
TIMES = ("", "timed", "median ms", "spread", "error")
_KIB = 1024


def title(result: TunerResult) -> str:
    """Which kernel, under what, on what."""
    where = (short(result.toolchain), result.target, result.dtype or "")
    return f"{kernel_name(result.kernel)} · {' · '.join(filter(None, where))}"


def config(values: Mapping[str, Any]) -> str:
    """`BK=64 num_warps=4 num_stages=2`."""
    return settings(
        {**values.get("kwargs", {}), **{k: v for k, v in values.items() if k != "kwargs"}}
    )


def row(place: int, examined: ExaminedConfig) -> tuple[str, ...]:
    """A configuration in as many words as there are headers."""
    held, values = examined.record.resources, examined.config
    others = {name: value for name, value in values.items() if name not in ("kwargs", *_OPTIONS)}
    return (
        str(place),
        settings({**values.get("kwargs", {}), **others}) or "–",
        *(_number(values.get(name)) for name in _OPTIONS),
        _verdict(examined),
        FATES[examined.fate],
        _shared(held),
        *(_number(held[name]) for name in ("registers", "stack", "spills")),
        _occupancy(examined),
        f"{examined.record.seconds:.1f}",
    )


def _verdict(examined: ExaminedConfig) -> str:
    """`compiles`, or the code of what is wrong."""
    record = examined.record
    return record.code or record.verdict.value


def _shared(held: Mapping[str, Any]) -> str:
    """KiB of KiB that a block can have."""
    limit = f"{held['shared_limit'] / _KIB:.0f}K"
    return f"{held['shared'] / _KIB:.0f}/{limit}" if held["shared"] is not None else f"–/{limit}"


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _occupancy(examined: ExaminedConfig) -> str:
    held = examined.occupancy
    return (
        f"{held.fraction:.0%} {held.blocks}× {_LIMITS.get(held.limit, held.limit)}" if held else "–"
    )


def causes(result: TunerResult) -> list[tuple[str, list[int]]]:
    """The first line of each failure or doubt, with the places of the configurations that have it."""
    lines: dict[str, str] = {}
    found: dict[str, list[int]] = {}
    for place, each in enumerate(result.configs, 1):
        if not each.compiles:
            record = each.record
            line = (
                next(iter(record.message.splitlines()), "") or record.reason or "nothing was said"
            )
            cause = record.signature or line
            lines.setdefault(cause, f"{record.code or record.verdict.value} {line}")
            found.setdefault(cause, []).append(place)
    return [(lines[cause], numbers) for cause, numbers in found.items()]


def timed(result: TunerResult) -> list[tuple[str, ...]]:
    """Each timed configuration with its place, its milliseconds and their spread, and the error."""
    rows: list[tuple[str, ...]] = []
    for place, each in enumerate(result.configs, 1):
        time = each.timing
        if (
            time
            and time.median_ms is not None
            and time.low_ms is not None
            and time.high_ms is not None
        ):
            spread = f"{time.low_ms:.3f}–{time.high_ms:.3f}"
            error = "–" if time.error is None else f"{time.error:.1e}"
            rows.append((str(place), config(each.config), f"{time.median_ms:.3f}", spread, error))
        elif time:
            rows.append((str(place), config(each.config), "–", time.failed or "", "–"))
    return rows


def bench_lines(result: TunerResult) -> Iterator[str]:
    """Why nothing was timed; the prices of fallbacks, and whether the estimate's order was the
    measured one.
    """
    if result.not_timed:
        yield f"not timed: {result.not_timed}"
    for price in result.prices:
        if price.times_best is not None:
            yield f"{settings(price.use)} instead takes {price.median_ms:.3f} ms, {price.times_best:.2f} × the best"
    if result.rank is not None:
        yield f"rank correlation of the estimates with the times: {result.rank:.2f} (Spearman)"


def places(numbers: Sequence[int]) -> str:
    """`1, 4–6`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def fault_line(fault: KeyFault) -> str:
    """One line of what is wrong with a key."""
    where = f" ({fault.file}:{fault.line})" if fault.file else ""
    return f"{fault.fault}: {fault.key} {fault.why}{where}"


def cost_line(cost: Cost) -> str:
    """What the first run waits for, and what would shorten it."""
    keys = f"{cost.keys} key{'s' * (cost.keys != 1)}"
    line = f"{cost.configs} configurations × {keys}: the first run compiles for {seconds(cost.first_run)}"
    ways = [f"warmed up by {cost.workers} compilers at once {seconds(cost.warmed)}"]
    if cost.droppable:
        ways.append(f"without {len(cost.droppable)} that gain nothing {seconds(cost.pruned)}")
    return f"{line}; {'; '.join(ways)}"


def seconds(value: float) -> str:
    """`12.3 s`, `4 min`."""
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.0f} min"


def droppable(cost: Cost) -> list[tuple[str, str]]:
    """Why configurations gain nothing, with their places from 1; failures stand in the table
    already.
    """
    found: dict[str, list[int]] = {}
    for place, why in cost.droppable.items():
        if why != "fails":
            found.setdefault(why, []).append(place + 1)
    return [(places(numbers), why) for why, numbers in found.items()]


def instead(result: TunerResult) -> list[tuple[str, str]]:
    """What fails, and what to use in its place, nearest first."""
    return [("; ".join(each.failing), " or ".join(each.uses)) for each in advice(result.fallbacks)]


def headline(results: Sequence[TunerResult]) -> str:
    """One line with what came out."""
    configs = [each for result in results for each in result.configs]
    counts = [(sum(each.fate is fate for each in configs), word) for fate, word in FATES.items()]
    said = ", ".join(
        f"{count} {'unknown' if word == '?' else word}" for count, word in counts if count
    )
    faults = sum(len(result.keys) for result in results)
    kernels = len({result.kernel for result in results})
    what = f"{kernels} kernel{'s' * (kernels != 1)}, {len(configs)} configurations: {said or 'none compiled'}"
    return what + (f" · {faults} key fault{'s' * (faults != 1)}" if faults else "")


def notes(result: TunerResult) -> Iterator[str]:
    """What is worth knowing, and no fault."""
    if result.pruned:
        named = some([config(each) for each in result.pruned], PRUNED)
        yield f"{len(result.pruned)} pruned by the kernel itself: {'; '.join(named)}"
    if result.unkeyed:
        yield f"constexprs in no key, in which no harm is seen: {', '.join(result.unkeyed)}"
