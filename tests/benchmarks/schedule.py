"""The order of compiles and the time left, on stored times: `python -m tests.benchmarks.schedule
BEFORE AFTER [-j N]`.

BEFORE and AFTER are stores. The latest cells of AFTER are replayed with their stored seconds on N
workers, in the stored order and in that of `pipeline/schedule.py`, which has seen BEFORE alone.
The output is the whole time, the time at the end in which one worker runs alone, and by how much
the estimates of the time left are wrong after a tenth of the cells: by work, and by count.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Sequence
from pathlib import Path

from flacheck.model import Record, Verdict
from flacheck.pipeline.schedule import Costs, RemainingWork, stored_cost
from flacheck.store import Store


def records_in(folder: Path) -> list[Record]:
    with Store.open(folder, create=False) as store:
        records = list(store.latest())
    return [each for each in records if each.verdict in (Verdict.COMPILES, Verdict.FAILS)]


def replay(records: Sequence[Record], workers: int) -> list[tuple[float, Record]]:
    """Return (time of its end, record), in the order of their ends."""
    free = [0.0] * workers
    ends = []
    for record in records:
        start = heapq.heappop(free)
        ends.append((start + record.seconds, record))
        heapq.heappush(free, start + record.seconds)
    return sorted(ends, key=lambda end: end[0])


def alone(ends: Sequence[tuple[float, Record]], workers: int) -> float:
    """Return the seconds at the end in which only one worker runs."""
    if len(ends) < workers or workers == 1:
        return 0.0
    return ends[-1][0] - ends[-2][0]


def errors(ends: Sequence[tuple[float, Record]], costs: Costs) -> tuple[float, float]:
    """Return the relative errors of the time left after a tenth of the cells: by work, by count."""
    work = RemainingWork.of((record.cell for _, record in ends), costs)
    whole, tenth = ends[-1][0], len(ends) // 10
    shares = [work.settle(record) for _, record in ends[:tenth]]
    elapsed, share = ends[tenth - 1][0], shares[-1]
    assert share
    left = whole - elapsed
    by_work = elapsed * (1 - share) / share
    by_count = elapsed * (len(ends) - tenth) / tenth
    return by_work / left - 1, by_count / left - 1


def show(name: str, records: Sequence[Record], workers: int, costs: Costs) -> None:
    ends = replay(records, workers)
    by_work, by_count = errors(ends, costs)
    print(
        f"{name}: {ends[-1][0]:.0f} s, one worker alone for {alone(ends, workers):.1f} s at the end;"
        f" time left wrong by {by_work:+.0%} by work, {by_count:+.0%} by count"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--toolchain", help="replay its cells; BEFORE counts without them")
    parser.add_argument("--package", help="replay the cells of one package")
    options = parser.parse_args()
    records = []
    for record in records_in(options.after):
        is_of_toolchain = options.toolchain in (None, record.toolchain)
        if is_of_toolchain and options.package in (None, record.package):
            records.append(record)
    with Store.open(options.before, create=False) as store:
        costs = Costs.of(map(stored_cost, store.recent_costs(without=options.toolchain)))
    by_key = {record.key: record for record in records}
    ordered = [by_key[cell.key] for cell in costs.ordered([each.cell for each in records])]
    total = sum(record.seconds for record in records)
    print(f"{len(records)} cells, {total:.0f} s on {options.jobs} workers")
    show("as stored", records, options.jobs, costs)
    show("ordered", ordered, options.jobs, costs)


if __name__ == "__main__":
    main()
