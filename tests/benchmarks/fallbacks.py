"""Compares the search for fallbacks with an exhaustive one over all failing cells of a package.

`python -m tests.benchmarks.fallbacks --store DIR [--package …] [--triton …] [--target …] [--budget N] [--sample N]`

Exhaustive is every one of the kernel's own configurations (and the failing one), each with its tiles halved in every
combination, as far as host code can follow. It is compiled in full where the search found nothing, for there alone it
could show that something was missed (or for `--given-up` of those cells, drawn by lot), and for `--sample` cells where
the search found something, to see whether that was the nearest. Everything compiled is kept in DIR, so an interrupted
comparison goes on where it was.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from flacheck import fallbacks, packaged
from flacheck.analysis.fallbacks import order
from flacheck.executors import LocalPool
from flacheck.expand import Selection
from flacheck.fallbacks import Oracle
from flacheck.fallbacks.candidates import Candidate
from flacheck.fallbacks.constants import HOST, TUNABLE
from flacheck.fallbacks.exploration import Exploration, compiled
from flacheck.fallbacks.failing import Asked, Failing
from flacheck.fallbacks.settings import explored
from flacheck.scan import Timeouts
from flacheck.session import CANDIDATE_SECONDS, Session, environment
from flacheck.store import Store

PACKAGE = "flash-linear-attention==0.2.2"
TRITON, TARGETS = ("3.2.0", "3.3.0", "3.9.0"), ("sm70", "sm80", "sm90")


def exhaustive(failing: Failing) -> list[Candidate]:
    """Own configurations × halved tiles, nearest first, each once."""
    known = failing.known
    tiles = {name: each.value for name, each in known.by_name.items() if each.mark in (TUNABLE, HOST)}
    found: dict[str, Candidate] = {}
    for config in ({}, *failing.cell.configs):
        start = {**tiles, **config.get("kwargs", {})}
        options = {name: value for name, value in config.items() if name != "kwargs" and value is not None}
        sizes = [[size, *known.halved(name, size)] if type(size) is int else [size] for name, size in start.items()]
        for values in product(*sizes):
            settings = {**options, **dict(zip(start, values))}
            use = {name: value for name, value in settings.items() if failing.space.failing.get(name) != value}
            candidate = failing.space.candidate(use) if use else None
            if candidate:
                found.setdefault(candidate.of(failing.cell).key, candidate)
    return sorted(found.values(), key=failing.space.rank)


@dataclass(frozen=True)
class Compared:
    """A failing cell: what the search found for it with so many compiles, and, where the exhaustive search of `size`
    candidates was made, the nearest of those that compile."""

    failing: Failing
    found: Candidate | None
    asked: int
    best: Candidate | None
    size: int

    @property
    def missed(self) -> bool:
        return self.best is not None and self.found is None

    @property
    def nearer(self) -> bool:
        """Whether the exhaustive search found something nearer."""
        rank = self.failing.space.rank
        return bool(self.best and self.found) and rank(self.best) < rank(self.found)  # type: ignore[arg-type]


def compare(asked: Asked, oracle: Oracle, budget: int, sample: int, most: int | None = None) -> list[Compared]:
    """Both searches over all failing cells, release by release."""
    failures = sorted(asked.failing(), key=lambda each: order(each.observed))
    ways = explored(failures, lambda each: [each.cell], oracle, budget, print)
    served = [key for key, way in ways.items() if way.answer]
    chance = random.Random(0)
    given_up = [key for key in ways if key not in served]
    doubted = given_up if most is None else chance.sample(given_up, min(most, len(given_up)))
    in_full = {*doubted, *chance.sample(served, min(sample, len(served)))}
    return [_compared(each, ways.get(each.observed.key), oracle, each.observed.key in in_full) for each in failures]


def table(rows: Sequence[Compared]) -> Iterator[str]:
    """A line a release and target, then what was missed and what was nearer."""
    yield _row(("release", "target", "failing", "removed API", "search", "compiles", "exhaustive", "candidates"))
    for place in dict.fromkeys(row.failing.place for row in rows):
        there = [row for row in rows if row.failing.place == place]
        counted = (
            len(there),
            sum(not row.failing.adjustable for row in there),
            sum(row.found is not None for row in there),
            sum(row.asked for row in there),
            sum(row.found is not None or row.missed for row in there),
            sum(row.size for row in there),
        )
        yield _row((*place, *counted))
    both = [row for row in rows if row.best and row.found]
    yield f"searched exhaustively although found: {len(both)}, of which something nearer: {sum(r.nearer for r in both)}"
    yield f"found by the exhaustive search and missed: {sum(row.missed for row in rows)}"
    for row in rows:
        if row.missed and row.best:
            cell = row.failing.cell
            yield f"  {cell.kernel.name} {cell.dtype} {cell.toolchain} {cell.target}: {dict(row.best.use)}"


def _compared(failing: Failing, way: Exploration | None, oracle: Oracle, in_full: bool) -> Compared:
    if way is None:
        return Compared(failing, None, 0, None, 0)
    space = exhaustive(failing)
    records = oracle([each.of(failing.cell) for each in space]) if in_full else {}
    good = (each for each in space if compiled(records.get(each.of(failing.cell).key)))
    return Compared(failing, way.answer, way.asked, next(good, None), len(space))


def _row(cells: Sequence[Any]) -> str:
    return "  ".join(str(cell).rjust(14) for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    parser.add_argument("--package", default=PACKAGE)
    parser.add_argument("--triton", nargs="*", default=TRITON)
    parser.add_argument("--target", nargs="*", default=TARGETS)
    parser.add_argument("--kernel", nargs="*", default=[])
    parser.add_argument("--num-warps", type=int, nargs="*", default=[], help="these instead of the usual ones")
    parser.add_argument("--budget", type=int, default=fallbacks.BUDGET)
    parser.add_argument("--sample", type=int, default=10)
    parser.add_argument("--given-up", type=int, help="of the cells without a fallback, how many")
    parser.add_argument("--jobs", "-j", type=int, default=1)
    chosen = parser.parse_args()
    selection = Selection(
        kernels=tuple(chosen.kernel),
        targets=tuple(chosen.target),
        num_warps=tuple(chosen.num_warps),
        toolchains=tuple(chosen.triton),
    )
    plan = packaged.plan(chosen.package, selection, progress=print)
    with Store.open(chosen.store) as scanned, Store.open(Path(chosen.store) / fallbacks.FOLDER) as own:
        session = Session(plan, scanned, None, chosen.jobs, 8192, False, None)
        records = list(session.records(print))
        timeouts = Timeouts(CANDIDATE_SECONDS)
        pool = LocalPool(chosen.jobs, timeouts)
        oracle = fallbacks.ScanOracle(
            plan, own.begin_run(environment()), fallbacks.Beside(own, scanned), pool, timeouts, 8192, print
        )
        try:
            for line in table(compare(Asked(plan, records), oracle, chosen.budget, chosen.sample, chosen.given_up)):
                print(line, flush=True)
        finally:
            pool.close()


if __name__ == "__main__":
    main()
