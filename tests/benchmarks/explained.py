"""Whether `flacheck explain` names the failures of scans as the scans do, as a table.

    python -m tests.benchmarks.explained CASE… --store FOLDER [--most 40]

A CASE is `PACKAGE@TRITON@TARGETS[@KERNELS]`, such as `flash-linear-attention==0.2.2@3.2.0@sm70`;
a matrix or a launches file may stand in place of the package. A launches file needs no capture, so
that 700 failing cells take about 10 minutes of CPU. Each case is compiled until `--most` cells
fail. The output of each failing compile is given to `explain`, which knows nothing of the cell, and
its first code is compared with the record's. Left out are verdicts that no output shows: resources
over a limit of a finished compile, time-outs, memory. Records in FOLDER keep no output, so that
every run compiles anew. The exit status is 1 if a code differs or more than 2 % of the failing
cells have FC000.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import flacheck
from flacheck.engine import judge
from flacheck.model import Attempt, Cell, Outcome, Record, Verdict
from flacheck.rules import UNCLASSIFIED

_MOST_UNCLASSIFIED = 0.02
_HEADS = ("case", "failing", "signatures", "same", "other", "FC000", "left out")


@dataclass
class Tally:
    """The failing cells of a case."""

    case: str
    same: int = 0
    left_out: int = 0
    signatures: set[str | None] = field(default_factory=set)
    codes: Counter[str | None] = field(default_factory=Counter)
    others: Counter[tuple[str | None, str, str]] = field(default_factory=Counter)

    @property
    def failing(self) -> int:
        return self.codes.total()

    @property
    def unclassified(self) -> int:
        return self.codes[UNCLASSIFIED]

    def add(self, attempt: Attempt, record: Record) -> None:
        self.codes[record.code] += 1
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


def measure(case: str, store: Path, most: int) -> Tally:
    """Compile a case; explain the output of its failing cells."""
    package, triton, targets, *kernels = case.split("@")
    tally = Tally(case)
    judge_attempt = judge.judge

    def watch(cell: Cell, attempt: Attempt) -> Record:
        record = judge_attempt(cell, attempt)
        if record.verdict is Verdict.FAILS:
            tally.add(attempt, record)
        return record

    with patch.object(judge, "judge", watch):
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


def main() -> int:
    """Print a row for each case and the codes that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--most", type=int, default=40)
    given = parser.parse_args()
    print("\t".join(_HEADS), flush=True)
    tallies = []
    for case in given.cases:
        try:
            tally = measure(case, given.store, given.most)
        except flacheck.FlacheckError as error:
            print(f"{case}\t{error}", flush=True)
            continue
        tallies.append(tally)
        figures = (tally.failing, len(tally.signatures), tally.same, tally.others.total())
        print(case, *figures, tally.unclassified, tally.left_out, sep="\t", flush=True)
        for (expected, actual, message), count in tally.others.items():
            print(f"    {count} × {expected} read as {actual}: {message!r}")
    failing = sum(tally.failing for tally in tallies)
    unclassified = sum(tally.unclassified for tally in tallies)
    differ = sum(tally.others.total() for tally in tallies)
    signatures = set().union(*(tally.signatures for tally in tallies))
    counts = f"{failing} failing with {len(signatures)} signatures"
    print(f"{counts}, {differ} differ, {unclassified} FC000")
    return int(differ > 0 or unclassified > _MOST_UNCLASSIFIED * failing)


if __name__ == "__main__":
    sys.exit(main())
