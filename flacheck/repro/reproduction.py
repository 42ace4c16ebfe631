"""From a failing cell to a verified script: the search as events, then what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from flacheck.analysis.slow import SECONDS
from flacheck.engine.judge import judge
from flacheck.model import Cell, Record, Verdict
from flacheck.repro import verification, versions
from flacheck.repro.compilers import Compilers
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kinds import FailureKind, kind_of
from flacheck.repro.oracle import Budget, Oracle, SameFailure
from flacheck.repro.original import NotReproduced
from flacheck.repro.output.files import ORIGINAL, SCRIPT
from flacheck.repro.output.result import Effort, Improvement, Reproduced, Runs
from flacheck.repro.output.script import SHOWS, is_typed, render
from flacheck.repro.passes.readable_form import reading
from flacheck.repro.reducer import polished, reduce

# A candidate may take so many times the seconds that the cell took, a short one at least these.
_PATIENCE = 10.0
_SHORTEST_TIMEOUT = 20.0


@dataclass
class Reproduction:
    """Reproduces one cell: `search` reduces it, `finish` verifies the best that was found.

    `best` is None until the failure was shown by a specimen; `log` are the lines of log.txt.
    Closing the search, or an interrupt in it, ends it; `finish` then makes of the best so far what
    there is to show.
    """

    cell: Cell
    compilers: Compilers
    budget: Budget
    runs: int = 3
    log: list[str] = field(default_factory=list)
    best: Specimen | None = None

    def search(self) -> Iterator[Improvement]:
        """Each improvement. Raises NotReproduced when the failure cannot be shown."""
        self.best = self._begin()
        for step in reduce(self.best, self._kind.first, self._kind.passes, self._oracle):
            self.best = step.best
            event = Improvement(step.by, step.best.lines, step.best.nodes, self.effort())
            size = f"{event.lines} lines, {event.nodes} nodes"
            self.log.append(f"{event.by}: {size} after {event.effort.ran} compiles")
            yield event

    def _begin(self) -> Specimen:
        """The original, once it has failed by itself and every release has judged it."""
        record = judge(self.cell, self.compilers.ask(self.cell))
        if record.verdict not in (Verdict.FAILS, Verdict.COMPILES):
            raise NotReproduced(f"{self.cell.key[:12]} is {record.verdict.value}: {record.reason}")
        # A candidate that makes the compiler hang must not cost what many others would.
        self.compilers.timeouts.fixed = max(_SHORTEST_TIMEOUT, _PATIENCE * record.seconds)
        self._kind: FailureKind = kind_of(self.cell, record)
        self._failure: SameFailure = self._kind.same(record)
        self._original = self._kind.original(self.cell, self.compilers)
        alone = self._shown_alone(record)
        # Compiled as far as other releases will be, it is that release's row of the table already.
        known = None
        if self._failure.until == self._failure.elsewhere:
            known = alone
        self._table = versions.judged(
            self._original, self.compilers, self._failure.elsewhere, known
        )
        # Whether a compile is slow can only be said beside the other releases.
        self._record = self._finding(record)
        contrasts = versions.contrasts(self._table, self.cell.toolchain, self._failure.faster)
        self._oracle = Oracle(
            self.compilers, self.cell.toolchain, self._failure, contrasts, self.budget
        )
        self.budget.begin()
        passing = versions.listed(contrasts) or "no other release"
        self.log.append(f"{self._record.signature}; must keep compiling: {passing}")
        return self._original

    def _shown_alone(self, record: Record) -> Record:
        """The original's record; NotReproduced when it differs from the cell's."""
        alone = self.compilers.compile(self._original, self.cell.toolchain, self._failure.until)
        if record.verdict is Verdict.COMPILES and alone.seconds < SECONDS:
            raise NotReproduced(f"{self._compiles_in(alone)}: there is nothing to reduce")
        if not self._failure.shows(alone):
            raise NotReproduced(
                f"cut out of its program, {self.cell.kernel.name} does not fail in the same way: "
                f"{alone.signature or alone.verdict.value} instead of {record.signature}"
            )
        return alone

    def _finding(self, record: Record) -> Record:
        """The record of a failure; that of a compile that ends well only when it is slow."""
        if record.verdict is Verdict.FAILS:
            return record
        slow = versions.as_slow(record, self._table)
        if slow is None:
            raise NotReproduced(
                f"{self._compiles_in(record)}, which is not slow beside other releases"
            )
        return slow

    def _compiles_in(self, record: Record) -> str:
        seconds = f"{record.seconds:.1f} s"
        return f"{self.cell.key[:12]} compiles under {self.cell.toolchain} in {seconds}"

    def effort(self) -> Effort:
        """What the search took so far."""
        oracle, budget = self._oracle, self.budget
        return Effort(oracle.asked, budget.ran, oracle.slipped, budget.elapsed)

    def draft(self) -> dict[str, str]:
        """The best so far as scripts that nobody has run yet, by file name."""
        assert self.best, "the search has not begun"
        return {
            SCRIPT: self._script(self.best, self._record),
            ORIGINAL: self._script(self._original, self._record),
        }

    def _script(self, specimen: Specimen, record: Record) -> str:
        return render(specimen, self._kind.symptom(self.cell, record, specimen))

    def finish(self, complete: bool = True) -> Reproduced:
        """The best so far in its readable form, verified in fresh processes."""
        assert self.best, "the search has not begun"
        # The few compiles that the end takes are allowed, whatever was spent.
        self.budget.compiles = self.budget.seconds = None
        reduced = polished(self.best, reading, self._oracle)
        for signature, count in sorted(self._oracle.slips.items()):
            self.log.append(f"rejected because they fail with {signature}: {count}")
        table = versions.judged(reduced, self.compilers)
        script = self._simplest_script(reduced)
        own = self.compilers.releases[self.cell.toolchain]
        shown = sum(verification.exit_status(script, own) == SHOWS for _ in range(self.runs))
        exits = {
            name: verification.exit_status(script, self.compilers.releases[name]) for name in table
        }
        return Reproduced(
            cell=self.cell,
            record=self._record,
            original=self._original,
            reduced=reduced,
            script=script,
            original_script=self._script(self._original, self._record),
            effort=self.effort(),
            runs=Runs(shown, self.runs),
            original_table=self._table,
            reduced_table=table,
            exits=exits,
            complete=complete,
            ttir=verification.surviving_ir(
                reduced.cell(self.cell.toolchain), self._failure, self.compilers
            ),
            log=tuple(self.log),
        )

    def _simplest_script(self, reduced: Specimen) -> str:
        """The script by types alone where that shows the failure, else as a launch."""
        # Compiled to its end: a reduction's own record stops at the failing stage.
        record = self.compilers.compile(reduced, self.cell.toolchain)
        symptom = self._kind.symptom(self.cell, record, reduced)
        if is_typed(reduced):
            script = render(reduced, symptom, typed=True)
            own = self.compilers.releases[self.cell.toolchain]
            if verification.exit_status(script, own) == SHOWS:
                return script
        return render(reduced, symptom)
