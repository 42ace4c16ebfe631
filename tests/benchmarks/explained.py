"""The share of scans' failures that `flacheck explain` gives the same code, as a table.

    python -m tests.benchmarks.explained [CASE…] [--stores FOLDER…] [--each 3] [--most 40]

Cells come from two places. A CASE is `PACKAGE@TRITON@TARGETS[@KERNELS]`, such as
`flash-linear-attention==0.2.2@3.2.0@sm70`; a matrix or a launches file may stand in place of the
package. Each case is compiled until `--most` cells fail. `--stores` names folders of stored
results, searched with all below them: of each signature of a failure in any of them, `--each`
cells are drawn, of as many releases and GPUs as there are, and compiled anew, because stored
records keep no output. A store of somebody else's is not for this: its sources are run.

The output of each failing compile is given to `explain`, without the cell, and its
first code is compared with the record's. Left out are verdicts that no output shows: resources
over a limit of a finished compile, time-outs, memory; and of stores also imports and calls that
failed during a capture, which are no compiles. The exit status is 1 if a code differs or
more than 2 % of the failing cells have FC000.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import flacheck
from flacheck.engine import judge
from flacheck.model import Attempt, Cell, Outcome, Record, Verdict
from flacheck.model.question import Purpose
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.resolved_cell import rebuild_cell
from flacheck.pipeline.run import records_of
from flacheck.rules import UNCLASSIFIED
from flacheck.source.packages.package import Package
from flacheck.store import Store
from flacheck.toolchains import Resolver

_MOST_UNCLASSIFIED = 0.02
_HEADS = ("case", "failing", "signatures", "same", "other", "FC000", "left out")
_STORE_FILE = "flacheck.sqlite"
# Compilers that tests make up.
_MADE_UP = "fake=="


@dataclass
class Tally:
    """The failing cells of a case."""

    case: str
    same: int = 0
    left_out: int = 0
    signatures: set[str | None] = field(default_factory=set)
    codes: Counter[str | None] = field(default_factory=Counter)
    others: Counter[tuple[str | None, str, str]] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    @property
    def failing(self) -> int:
        return self.codes.total()

    @property
    def unclassified(self) -> int:
        return self.codes[UNCLASSIFIED]

    def add(self, attempt: Attempt, record: Record) -> None:
        self.codes[record.code] += 1
        if record.code == UNCLASSIFIED:
            self.unknown[record.message[:200]] += 1
        self.signatures.add(record.signature)
        is_printed = attempt.outcome in (Outcome.RAISED, Outcome.DIED) and attempt.log.strip()
        if not is_printed:
            self.left_out += 1
            return
        log = io.BytesIO(attempt.log.encode("utf-8", "replace"))
        findings = flacheck.explain(log).findings
        code = findings[0].code if findings else UNCLASSIFIED
        if code == record.code:
            self.same += 1
        else:
            self.others[record.code, code, record.message[:200]] += 1


@contextmanager
def _tallying(tally: Tally) -> Iterator[None]:
    """Add each failing attempt that is judged meanwhile to a tally."""
    judge_attempt = judge.judge

    def watch(cell: Cell, attempt: Attempt) -> Record:
        record = judge_attempt(cell, attempt)
        if record.verdict is Verdict.FAILS:
            tally.add(attempt, record)
        return record

    with patch.object(judge, "judge", watch):
        yield


def measure(case: str, store: Path, most: int) -> Tally:
    """Compile a case; explain the output of its failing cells."""
    package, triton, targets, *kernels = case.split("@")
    tally = Tally(case)
    with _tallying(tally):
        flacheck.scan(
            None if "==" in package else package,
            package=package if "==" in package else None,
            triton=triton,
            target=targets,
            kernel=kernels,
            store=store,
            fresh=True,
            max_failures=most,
        )
    return tally


def draw(folders: Iterable[Path], each: int) -> list[Record]:
    """Return failing records of all stores below some folders, at most so many a signature.

    Of the records of a signature, those of further releases and GPUs are taken first.
    """
    by_signature: dict[str | None, dict[str, Record]] = {}
    for folder in folders:
        for file in sorted(folder.rglob(_STORE_FILE)):
            with Store.open(file.parent, create=False) as store:
                for record in store.latest():
                    if record.verdict is Verdict.FAILS and _is_compiled(record):
                        by_signature.setdefault(record.signature, {})[record.key] = record
    sample = []
    for records in by_signature.values():
        sample += _spread(list(records.values()), each)
    return sample


def _is_compiled(record: Record) -> bool:
    """Return True for a cell that a real compiler compiles.

    An import or a call that fails while a package is captured has no function to compile.
    """
    has_function = getattr(record.cell.kernel.origin, "qualname", "") is not None
    return has_function and not record.toolchain.startswith(_MADE_UP)


def _spread(records: list[Record], count: int) -> list[Record]:
    """Return some records, of as many releases and GPUs as possible; the same for a seed."""
    random.Random(0).shuffle(records)
    times: Counter[tuple[str, str]] = Counter()
    order = []
    for record in records:
        place = (record.toolchain, record.target)
        order.append((times[place], record))
        times[place] += 1
    order.sort(key=lambda ranked_record: ranked_record[0])
    return [record for _, record in order[:count]]


def recompile(records: Sequence[Record], jobs: int) -> Iterator[Tally]:
    """Compile stored cells anew, one package at a time; yield a tally for each package."""
    by_package: dict[str, list[Record]] = {}
    for record in records:
        by_package.setdefault(record.package or "without a package", []).append(record)
    for name, group in by_package.items():
        tally = Tally(name)
        plan = _plan(name, group)
        with TemporaryDirectory() as folder, Store.open(folder) as store, _tallying(tally):
            for _ in records_of(plan, store, RunOptions(jobs=jobs, fresh=True)):
                pass
        yield tally


def _plan(name: str, records: Sequence[Record]) -> Plan:
    """Return a plan of stored cells; a cell that cannot be rebuilt is reported and left out."""
    resolver = Resolver()
    cells: list[Cell] = []
    packages: dict[str, Package] = {}
    for record in records:
        try:
            cell_found = rebuild_cell(record, trust=True)
        except flacheck.FlacheckError as error:
            print(f"    {record.key[:12]} is left out: {error}", file=sys.stderr)
            continue
        resolver(record.toolchain)
        cells.append(cell_found.cell)
        packages.update(cell_found.packages)
    return Plan(name, cells, resolver.choices, packages, purpose=Purpose.REPRO, trust=True)


def _print(tally: Tally) -> None:
    figures = (tally.failing, len(tally.signatures), tally.same, tally.others.total())
    print(tally.case, *figures, tally.unclassified, tally.left_out, sep="\t", flush=True)
    for (wanted_code, actual, message), count in tally.others.items():
        print(f"    {count} × {wanted_code} read as {actual}: {message!r}", flush=True)
    for message, count in tally.unknown.items():
        print(f"    {count} × {UNCLASSIFIED}: {message!r}", flush=True)


def main() -> int:
    """Print a row for each case and each package of the stores, and the codes that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--stores", type=Path, nargs="*", default=[])
    parser.add_argument("--store", type=Path, help="where the runs of the cases go")
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=0)
    options = parser.parse_args()
    if options.cases and options.store is None:
        parser.error("cases need --store")
    print("\t".join(_HEADS), flush=True)
    tallies = []
    for case in options.cases:
        try:
            tallies.append(measure(case, options.store, options.most))
        except flacheck.FlacheckError as error:
            print(f"{case}\t{error}", flush=True)
            continue
        _print(tallies[-1])
    for tally in recompile(draw(options.stores, options.each), options.jobs):
        tallies.append(tally)
        _print(tally)
    failing = sum(tally.failing for tally in tallies)
    unclassified = sum(tally.unclassified for tally in tallies)
    differ = sum(tally.others.total() for tally in tallies)
    signatures = set().union(*(tally.signatures for tally in tallies))
    counts = f"{failing} failing with {len(signatures)} signatures"
    print(f"{counts}, {differ} differ, {unclassified} FC000")
    return int(differ > 0 or unclassified > _MOST_UNCLASSIFIED * failing)


if __name__ == "__main__":
    sys.exit(main())
