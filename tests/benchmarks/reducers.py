"""flacheck repro beside general reducers: the same failures, the same oracle, the same budget of
compiles.

    python3.12 -m venv V && V/bin/pip install pysource-minimize==0.10.1 shrinkray==26.4.14.0
    python -m tests.benchmarks.reducers --python V/bin/python [--budget 600] [CASE…]

(Later releases of shrinkray want the runtime of a language model; it needs Python 3.12 in any
case.)

What they reduce is one module: the kernel cut out with all that it uses, and last a line with its
launch and options, so that those can be reduced too. A candidate that is no Python, names no kernel
or has a malformed launch is refused without a compile and costs nothing; parameters that are gone
take their arguments along. Everything else is asked of the oracle that flacheck repro asks: the
same failure, and the contrast releases still compile. The smallest candidate that it accepted
counts. Nothing here asserts: read the table.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flacheck.capabilities.repro import versions
from flacheck.capabilities.repro.budget import Budget
from flacheck.capabilities.repro.compilers import LONGEST, Compilers, provide_releases
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kinds import kind_of
from flacheck.capabilities.repro.oracle import Oracle
from flacheck.capabilities.repro.output.result import Reproduced
from flacheck.capabilities.repro.reproduction import begin
from flacheck.errors import FlacheckError
from flacheck.model import Purpose
from flacheck.pipeline import resolved_cell as cells
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.resolved_cell import ResolvedCell
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from tests.benchmarks.rivals import RIVALS, Rival, reduced_by

DELTA, SM70 = "*chunk_gated_delta_rule_fwd_kernel_h", "sm70"


@dataclass(frozen=True)
class Case:
    """A failing cell by what selects it in a matrix."""

    name: str
    matrix: str
    kernel: str
    triton: str
    target: str
    dtype: str
    num_warps: int
    num_stages: int = 2

    def selection(self) -> Selection:
        return Selection(
            (self.kernel,),
            (self.target,),
            (self.dtype,),
            (self.num_warps,),
            (self.num_stages,),
            (self.triton,),
        )


CASES = (
    Case("reshapeOuts", "seeds", DELTA, "3.2.0", "sm90", "bf16", 8),
    Case("stMatrix", "seeds", DELTA, "3.3.0", "sm90", "bf16", 8),
    Case("shared", "seeds", DELTA, "3.2.0", "sm90", "bf16", 2, 3),
    Case("f16-to-f16", "seeds", "chunk_fwd_kernel_o", "3.3.0", SM70, "fp16", 4),
    Case("slice-layout", "seeds", "chunk_fwd_kernel_o", "3.2.0", SM70, "fp16", 4),
    Case("ptxas-bf16", "seeds", "chunk_fwd_kernel_h", "3.2.0", SM70, "bf16", 4),
    Case("rounding-mode", "seeds", "chunk_bwd_kernel_dh", "3.3.1", SM70, "bf16", 4),
    Case("removed-api", "seeds", "chunk_fwd_kernel_h", "3.9.0", "sm90", "bf16", 4),
    Case("hopper-mma", "quick", "gated_delta_rule.chunk_fwd_h", "3.1.0", "sm90", "bf16", 8, 1),
    Case("own-reshapeOuts", "quick", "gated_delta_rule.chunk_fwd_h", "3.2.0", "sm90", "bf16", 8, 1),
)


@dataclass(frozen=True)
class Row:
    """One reducer's result on one case; `differing` counts releases that judge it otherwise than
    the original."""

    case: str
    reducer: str
    lines: int
    nodes: int
    ran: int
    seconds: float
    differing: int
    ended: str = ""

    def __str__(self) -> str:
        figures = (
            f"{self.lines:5} {self.nodes:6} {self.ran:8} {self.seconds:7.0f} {self.differing:9}"
        )
        return f"{self.case:16} {self.reducer:18} {figures}  {self.ended}".rstrip()


HEAD = f"{'case':16} {'reducer':18} {'lines':>5} {'nodes':>6} {'compiles':>8} {'seconds':>7} {'differing':>9}"


def chosen(case: Case, store: Store) -> ResolvedCell:
    """The case's cell; the first by key where several fail with one signature."""
    options = RunOptions(jobs=2)
    return cells.resolve_cell(case.matrix, case.selection(), store, Purpose.REPRO, options=options)


@dataclass
class Comparison:
    """One case under every reducer; `rows` does the work."""

    case: Case
    budget: int
    seconds: float
    python: str

    def rows(self, store: Store, rivals: Sequence[Rival]) -> Iterator[Row]:
        """A row for flacheck repro, one for the original, then one for each rival."""
        found = chosen(self.case, store)
        releases = provide_releases(found.cell.toolchain, found.cell.target, ())
        budget = Budget(compiles=self.budget)
        with Compilers(releases, found.packages, budget=budget) as compilers:
            ours = begin(found.cell, compilers)
            for _ in ours.search():
                pass
            took, result = ours.oracle.effort.seconds, ours.finish(runs=1)
            ran = result.effort.ran
            ended = "budget spent" if ran >= self.budget else "ended by itself"
            yield self._row("flacheck repro", result.reduction, result, compilers, ran, took, ended)
            # A busy machine must not refuse what it would accept at leisure.
            compilers.patience = LONGEST
            yield self._row("(original)", result.original, result, compilers)
            for rival in rivals:
                yield self._rival(rival, result, compilers)

    def _rival(self, rival: Rival, result: Reproduced, compilers: Compilers) -> Row:
        oracle = _oracle(result, compilers, self.budget)
        started = time.monotonic()
        got = reduced_by(rival, self.python, result.original, oracle, self.seconds)
        took, ended = (
            time.monotonic() - started,
            f"{got.ended}, {got.refused} candidates refused unseen",
        )
        return self._row(
            rival.name, got.best, result, compilers, oracle.compilers.budget.ran, took, ended
        )

    def _row(
        self,
        reducer: str,
        best: Specimen,
        result: Reproduced,
        compilers: Compilers,
        ran: int = 0,
        seconds: float = 0.0,
        ended: str = "",
    ) -> Row:
        differing = versions.differing(
            result.original_table, versions.judge_releases(best, compilers)
        )
        return Row(
            self.case.name, reducer, best.lines, best.nodes, ran, seconds, len(differing), ended
        )


def _oracle(result: Reproduced, compilers: Compilers, budget: int) -> Oracle:
    """The oracle of flacheck's own reduction, its budget whole."""
    kind = kind_of(result.cell, result.record)
    failure, release = kind.same(result.record), result.cell.toolchain
    contrasts = versions.contrasts(result.original_table, release, failure.faster)
    compilers.budget = Budget(compiles=budget)
    return Oracle(compilers, release, failure, contrasts)


def main() -> None:
    parser = argparse.ArgumentParser(description="flacheck repro beside general reducers")
    parser.add_argument("cases", nargs="*", help=", ".join(case.name for case in CASES))
    parser.add_argument(
        "--python", required=True, help="an interpreter that has pysource-minimize and shrinkray"
    )
    parser.add_argument(
        "--budget", type=int, default=600, help="compiles for each reducer and case"
    )
    parser.add_argument(
        "--seconds", type=float, default=3600.0, help="and no longer than that, for each"
    )
    asked = parser.parse_args()
    unknown = set(asked.cases) - {case.name for case in CASES}
    if unknown:
        parser.error(
            f"no case {', '.join(unknown)}: there are {', '.join(case.name for case in CASES)}"
        )
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder)) as store:
        for case in CASES:
            if not asked.cases or case.name in asked.cases:
                try:
                    for row in Comparison(case, asked.budget, asked.seconds, asked.python).rows(
                        store, RIVALS
                    ):
                        print(row, flush=True)
                except FlacheckError as error:
                    print(f"{case.name:16} {error}", flush=True)


if __name__ == "__main__":
    main()
