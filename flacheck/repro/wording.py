"""A reproduction as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flacheck.repro.output.result import Reproduced
from flacheck.repro.output.script import kernel_text
from flacheck.repro.versions import listed


def summary(result: Reproduced, folder: Path) -> Iterator[str]:
    """What was reached, and how sure it is."""
    before, after, tally = result.original, result.reduced, result.effort
    yield kernel_text(after)
    yield ""
    yield f"{before.lines} lines to {after.lines}, {before.nodes} nodes to {after.nodes}: {_cost(result)}"
    if not result.complete:
        yield "the search was ended early: this is the best so far"
    if tally.slipped:
        yield f"{tally.slipped} smaller ones were refused: they fail otherwise, or on releases that must pass"
    yield f"{folder / 'repro.py'} shows the failure in {result.runs} fresh processes on {result.cell.toolchain}"
    yield from _releases(result)


def _cost(result: Reproduced) -> str:
    tally = result.effort
    return f"{tally.asked} candidates, {tally.ran} compiles, {tally.seconds:.0f} s"


def _releases(result: Reproduced) -> Iterator[str]:
    for status, word in ((0, "shows"), (1, "does not show"), (125, "cannot tell")):
        names = [name for name, found in result.exits.items() if found == status]
        if names:
            yield f"{word:>13}: {listed(names)}"
    if result.lost:
        yield f"the original fails so on {listed(result.lost)} too; the script does not show it there"
    if result.differing:
        yield f"judged otherwise than the original: {listed(result.differing)}"
