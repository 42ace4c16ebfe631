"""One reproduction from a failing cell to a verified script, as a generator of its progress."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from flacheck.analysis.slow import SECONDS
from flacheck.model import Cell, Record, Verdict
from flacheck.packages.package import Package
from flacheck.repro import versions
from flacheck.repro.compilers import Compilers
from flacheck.repro.kernel.reading import Reading
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kinds import Kind, kind_of
from flacheck.repro.oracle import Budget
from flacheck.repro.original import NotReproduced, Stopped, original
from flacheck.repro.output import files
from flacheck.repro.output.result import Progress, Result, Tally
from flacheck.repro.output.script import Symptom, forms, render
from flacheck.repro.reducer import polished, reduce
from flacheck.repro.slow import as_slow
from flacheck.repro.ttir import surviving
from flacheck.repro.verification import SHOWS, Runs, Verifier, verifier
from flacheck.repro.versions import Table

_PATIENCE = 10.0
_SHORTEST_TIMEOUT = 20.0


@dataclass
class Reproduction:
    """Reproduces one cell. `steps` does the work; `result` is there when it is done.

    Closing the generator, or an interrupt in it, ends the search; `finish` then makes of the best
    so far what there is to show.
    """

    cell: Cell
    package: Package | None
    compilers: Compilers
    budget: Budget
    runs: int = 3
    result: Result | None = None
    log: list[str] = field(default_factory=list)
    _known: dict[str, Record] = field(default_factory=dict)
    _best: Specimen | None = None

    def steps(self) -> Iterator[Progress]:
        """Each improvement. Raises NotReproduced when the failure cannot be shown."""
        self._prepare()
        assert self._best
        first, passes = self._kind.passes()
        for step in reduce(self._best, first, passes, self._oracle):
            self._best = step.best
            yield self._progress(step.by)

    def _prepare(self) -> None:
        """The failure on its own release, then as a specimen, then on every release."""
        first = self._judged()
        self._kind: Kind = kind_of(self.cell, first)
        self._original = self._standalone(first)
        self._elsewhere = self._kind.failure(first).elsewhere
        self._table = versions.table(self.compilers.releases, self._judge_original)
        self._record = self._settled(first)
        self._oracle = self._kind.oracle(self.compilers, self._record, self._table, self.budget)
        self._best = self._original
        self.budget.begin()
        contrasts = versions.listed(self._oracle.contrasts) or "none there is"
        self._note(f"{self._record.signature}; must keep compiling: {contrasts}")

    def _judged(self) -> Record:
        """The cell itself; NotReproduced when it gives no verdict."""
        imported = "import" in self.cell.kernel.origin
        worker = self.compilers.kind(self.cell.toolchain, self.package, imported)
        record = self.compilers.judged(self.cell, worker)
        if record.verdict not in (Verdict.FAILS, Verdict.COMPILES):
            raise NotReproduced(f"{self.cell.key[:12]} is {record.verdict.value}: {record.reason}")
        self.compilers.timeout = max(_SHORTEST_TIMEOUT, _PATIENCE * record.seconds)
        return record

    def _settled(self, record: Record) -> Record:
        """The record of a failure; of a compile that ended well only when it is slow, which other
        releases tell.
        """
        if record.verdict is Verdict.FAILS:
            return record
        slow = as_slow(record, self._table)
        if slow is None:
            raise NotReproduced(
                f"{self.cell.key[:12]} compiles under {self.cell.toolchain} in {record.seconds:.1f} s, "
                "which is not slow beside other releases"
            )
        return slow

    def _standalone(self, first: Record) -> Specimen:
        specimen = self._kind.original(self.cell, self.package, self._cut)
        failure = self._kind.failure(first)
        record = self.compilers.compile(specimen, self.cell.toolchain, failure.until)
        if failure.until == failure.elsewhere:
            self._known[self.cell.toolchain] = record
        if first.verdict is Verdict.COMPILES and record.seconds < SECONDS:
            raise NotReproduced(
                f"{self.cell.key[:12]} compiles under {self.cell.toolchain} in {record.seconds:.1f} s: "
                "there is nothing to reduce"
            )
        if not failure(record):
            raise NotReproduced(
                f"cut out of its program, {self.cell.kernel.name} does not fail in the same way: "
                f"{record.signature or record.verdict.value} instead of {first.signature}"
            )
        return specimen

    def _cut(self) -> Specimen:
        """The kernel by itself, cut out where it fails or else under the newest release that
        imports it.
        """
        releases = dict.fromkeys([self.cell.toolchain, *reversed(list(self.compilers.releases))])
        return original(self.cell, self.package, self.compilers, releases)

    def _judge_original(self, release: str) -> Record:
        return self._known.get(release) or self.compilers.compile(
            self._original, release, self._elsewhere
        )

    def _note(self, line: str) -> None:
        self.log.append(line)

    def tally(self) -> Tally:
        oracle = self._oracle
        return Tally(oracle.asked, self.budget.ran, oracle.slipped, self.budget.elapsed)

    def _progress(self, by: str) -> Progress:
        assert self._best
        progress = Progress(by, self._best.lines, self._best.nodes, self.tally())
        self._note(
            f"{by}: {progress.lines} lines, {progress.nodes} nodes after {progress.tally.ran} compiles"
        )
        return progress

    def draft(self) -> dict[str, str]:
        """The best so far as scripts that nobody has run yet, by file name; empty when the search
        had not begun.
        """
        if self._best is None:
            return {}
        best, original = (
            self._kind.symptom(self.cell, self._record, each)
            for each in (self._best, self._original)
        )
        return {
            files.SCRIPT: render(self._best, best, forms(self._best)[-1]),
            files.ORIGINAL: render(self._original, original),
        }

    def finish(self, complete: bool = True) -> Result:
        """The best so far in its readable form, verified in fresh processes. Raises Stopped when
        the search had not begun.
        """
        if self._best is None:
            raise Stopped("interrupted before the failure was reproduced: there is nothing to show")
        self.budget.lift()
        reduced = polished(self._best, Reading(), self._oracle)
        for slip, count in sorted(self._oracle.slips.items()):
            self._note(f"refused {count} candidates that fail otherwise: {slip}")
        with verifier() as there:
            self.result = self._verified(reduced, there, complete)
        return self.result

    def _verified(self, reduced: Specimen, there: Verifier, complete: bool) -> Result:
        table = versions.of_specimen(reduced, self.compilers)
        last = self.compilers.compile(reduced, self.cell.toolchain)
        symptom = self._kind.symptom(self.cell, last, reduced)
        script = self._shortest_form(reduced, symptom, there)
        return Result(
            cell=self.cell,
            record=self._record,
            original=self._original,
            reduced=reduced,
            symptom=symptom,
            script=script,
            original_script=render(
                self._original, self._kind.symptom(self.cell, self._record, self._original)
            ),
            tally=self.tally(),
            runs=there.runs(script, self.compilers.releases[self.cell.toolchain], self.runs),
            original_table=self._table,
            reduced_table=table,
            exits=self._exits(script, table, there),
            complete=complete,
            ttir=surviving(
                reduced, self.cell.toolchain, self._kind.failure(self._record), self.compilers
            ),
            log=tuple(self.log),
        )

    def _shortest_form(self, reduced: Specimen, symptom: Symptom, there: Verifier) -> str:
        """The simplest form of script that shows the failure; the last one where none does."""
        release = self.compilers.releases[self.cell.toolchain]
        script = ""
        for form in forms(reduced):
            script = render(reduced, symptom, form)
            if there.status(script, release) == SHOWS:
                break
        return script

    def _exits(self, script: str, table: Table, there: Verifier) -> dict[str, int]:
        return {name: there.status(script, self.compilers.releases[name]) for name in table}


__all__ = ["Reproduction", "Runs"]
