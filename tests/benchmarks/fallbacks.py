"""Compares the search for fallbacks with an exhaustive one over all failing cells of a package.

`python -m tests.benchmarks.fallbacks --store DIR [--package …] [--triton …] [--target …] [--budget
N] [--sample N] [--minutes M]`

Exhaustive is every one of the kernel's own configurations (and the failing one), each with its
tiles halved in every combination, as far as host code can follow. It is compiled in full for
`--sample` cells where the search found something, to see whether that was the nearest; then, for
there alone it could show that something was missed, where the search found nothing: in an order
drawn by lot, until all are done or the minutes are over. Everything compiled is kept in DIR, so a
comparison goes on where it was.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from flacheck.pipeline import planning
from flacheck.pipeline.fallbacks.candidates import Candidate
from flacheck.pipeline.fallbacks.constexprs import HOST, TUNABLE
from flacheck.pipeline.fallbacks.exploration import BUDGET, Exploration, Oracle, compiles_fully
from flacheck.pipeline.fallbacks.failing import Failing, ScanResult
from flacheck.pipeline.fallbacks.ranking import order
from flacheck.pipeline.fallbacks.searching import explore_failures, searching
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.run import records_of
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject

PACKAGE = "flash-linear-attention==0.2.2"
TRITON, TARGETS = ("3.2.0", "3.3.0", "3.9.0"), ("sm70", "sm80", "sm90")


def exhaustive(failing: Failing) -> list[Candidate]:
    """Own configurations × halved tiles, nearest first, each once."""
    known = failing.constexprs
    tiles = {
        name: each.value for name, each in known.by_name.items() if each.mark in (TUNABLE, HOST)
    }
    found: dict[str, Candidate] = {}
    for config in ({}, *failing.cell.configs):
        start = {**tiles, **config.get("kwargs", {})}
        options = {
            name: value for name, value in config.items() if name != "kwargs" and value is not None
        }
        sizes = [
            [size, *known.halve(name, size)] if type(size) is int else [size]
            for name, size in start.items()
        ]
        for values in product(*sizes):
            settings = {**options, **dict(zip(start, values))}
            use = {
                name: value
                for name, value in settings.items()
                if failing.space.failing.get(name) != value
            }
            candidate = failing.space.candidate(use) if use else None
            if candidate:
                found.setdefault(candidate.of(failing.cell).key, candidate)
    return sorted(found.values(), key=failing.space.rank)


@dataclass(frozen=True)
class Compared:
    """A failing cell: what the search found for it with so many compiles, and, where the exhaustive
    search was made, its `size` in candidates and the nearest of those that compile."""

    failing: Failing
    found: Candidate | None
    asked: int
    best: Candidate | None = None
    size: int | None = None

    @property
    def missed(self) -> bool:
        return self.best is not None and self.found is None

    @property
    def nearer(self) -> bool:
        """Whether the exhaustive search found something nearer."""
        rank = self.failing.space.rank
        return bool(self.best and self.found) and rank(self.best) < rank(self.found)  # type: ignore[arg-type]


def compare(
    asked: ScanResult, oracle: Oracle, budget: int, sample: int, minutes: float
) -> list[Compared]:
    """Both searches over all failing cells, release by release."""
    failures = sorted(asked.failing(), key=lambda each: order(each.observation))
    ways = explore_failures(failures, lambda each: [each.cell], oracle, budget)
    rows = {each.key: _searched(each, ways.get(each.key)) for each in failures}
    chance = random.Random(0)
    served = [key for key, row in rows.items() if row.found]
    given_up = [key for key, row in rows.items() if row.failing.adjustable and not row.found]
    doubted = [
        *chance.sample(served, min(sample, len(served))),
        *chance.sample(given_up, len(given_up)),
    ]
    ends = time.monotonic() + 60 * minutes
    for number, key in enumerate(doubted):
        if time.monotonic() > ends:
            print(
                f"{len(doubted) - number} of {len(doubted)} cells were not searched exhaustively for want of time"
            )
            break
        rows[key] = _in_full(rows[key], oracle)
    return list(rows.values())


def _searched(failing: Failing, way: Exploration | None) -> Compared:
    return Compared(failing, way.answer if way else None, way.compile_count if way else 0)


def _in_full(row: Compared, oracle: Oracle) -> Compared:
    cell, space = row.failing.cell, exhaustive(row.failing)
    records = oracle([each.of(cell) for each in space])
    best = next((each for each in space if compiles_fully(records.get(each.of(cell).key))), None)
    return replace(row, best=best, size=len(space))


COLUMNS = (
    "release",
    "target",
    "failing",
    "removed",
    "found",
    "compiles",
    "given up",
    "full",
    "candidates",
    "missed",
)


def table(rows: Sequence[Compared]) -> Iterator[str]:
    """A line a release and target, then what was nearer than what was found, and what was missed.

    `removed` are cells whose API the release removed, where no setting can matter; `full` those of
    the given-up that were searched exhaustively, over so many `candidates`.
    """
    yield _row(COLUMNS)
    for place in dict.fromkeys(row.failing.place for row in rows):
        yield _row((*place, *_counts([row for row in rows if row.failing.place == place])))
    both = [row for row in rows if row.best and row.found]
    yield f"found, and searched exhaustively all the same: {len(both)}; something nearer: {sum(r.nearer for r in both)}"
    for row in rows:
        if row.missed and row.best:
            cell = row.failing.cell
            yield f"missed: {cell.kernel.name} {cell.dtype} {cell.toolchain} {cell.target}: {dict(row.best.use)}"


def _counts(rows: Sequence[Compared]) -> Iterator[int]:
    """The numbers of a line."""
    lost = [row for row in rows if row.failing.adjustable and not row.found]
    full = [row for row in lost if row.size is not None]
    yield len(rows)
    yield sum(not row.failing.adjustable for row in rows)
    yield sum(row.found is not None for row in rows)
    yield sum(row.asked for row in rows)
    yield len(lost)
    yield len(full)
    yield sum(row.size or 0 for row in full)
    yield sum(row.missed for row in full)


def _row(cells: Sequence[Any]) -> str:
    return "  ".join(str(cell).rjust(13) for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    parser.add_argument("--package", default=PACKAGE)
    parser.add_argument("--triton", nargs="*", default=TRITON)
    parser.add_argument("--target", nargs="*", default=TARGETS)
    parser.add_argument("--kernel", nargs="*", default=[])
    parser.add_argument(
        "--num-warps", type=int, nargs="*", default=[], help="these instead of the usual ones"
    )
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--sample", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=60, help="for the exhaustive searches")
    parser.add_argument("--jobs", "-j", type=int, default=1)
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    selection = Selection(
        kernels=tuple(chosen.kernel),
        targets=tuple(chosen.target),
        num_warps=tuple(chosen.num_warps),
        toolchains=tuple(chosen.triton),
    )
    plan = planning.plan_job(Job(Subject(package=chosen.package), selection))
    with Store.open(chosen.store) as store:
        records = list(records_of(plan, store, RunOptions(jobs=chosen.jobs)))
        with searching(plan, store, RunOptions(jobs=chosen.jobs)) as (oracle, _):
            scanned = ScanResult(plan, records)
            results = compare(scanned, oracle, chosen.budget, chosen.sample, chosen.minutes)
            for line in table(results):
                print(line, flush=True)


if __name__ == "__main__":
    main()
