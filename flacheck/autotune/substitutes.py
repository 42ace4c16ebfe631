"""What to use in place of configurations that end a run: searched by `fallbacks`, over all releases
and targets asked.

A search speaks of compiles. What a trial compiled counts as one, so that no configuration is
compiled twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from flacheck.analysis.fallbacks import Fallback
from flacheck.autotune.examined import Fate, TunerResult
from flacheck.autotune.trials import Trials
from flacheck.model import Cell, Record

# Given compiles with what is known of them, by key: what compiles in place of those that fail.
Search = Callable[[Sequence[Cell], Mapping[str, Record]], Iterable[Fallback]]


def with_fallbacks(
    examined: Sequence[tuple[Trials, TunerResult]], search: Search
) -> list[TunerResult]:
    """The results, each with what its failing configurations can be replaced by."""
    results = [result for _, result in examined]
    kernels = {(each.kernel, each.package) for each in results if _is_mendable(each)}
    cells: dict[str, Cell] = {}
    tried: dict[str, Record] = {}
    for asked, result in examined:
        # Also where nothing fails: a fallback says everywhere it was seen to compile.
        if (result.kernel, result.package) in kernels:
            for cell, config in zip(asked.compiles(), result.configs):
                cells[cell.key] = cell
                tried[cell.key] = config.record.with_(cell=cell)
    if not cells:
        return results
    fallbacks = list(search(list(cells.values()), tried))
    return [replace(result, fallbacks=_of(result, fallbacks)) for result in results]


def _is_mendable(result: TunerResult) -> bool:
    """Whether something ends its runs that other settings could mend: no key, and no import."""
    fates = [config.fate for config in result.configs if not config.compiles]
    every_one_fails = bool(fates) and len(fates) == len(result.configs)
    return Fate.ENDS_RUN in fates or every_one_fails


def _of(result: TunerResult, fallbacks: Sequence[Fallback]) -> tuple[Fallback, ...]:
    place = (result.kernel, result.package, result.toolchain, result.target)
    return tuple(
        each
        for each in fallbacks
        if (each.kernel, each.package, each.toolchain, each.target) == place
    )
