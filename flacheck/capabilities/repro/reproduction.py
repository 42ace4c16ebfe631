"""From a failing cell to a verified script: the search as events, then what came of it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from flacheck.analysis.slow import SECONDS
from flacheck.capabilities.repro import identity, versions
from flacheck.capabilities.repro.budget import BudgetSpent
from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.kernel.operation_types import OperationTypes
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kinds import FailureKind, kind_of
from flacheck.capabilities.repro.oracle import Oracle
from flacheck.capabilities.repro.original import NotReproduced
from flacheck.capabilities.repro.output.files import ORIGINAL, SCRIPT
from flacheck.capabilities.repro.output.result import Improvement, Reproduced, Runs
from flacheck.capabilities.repro.output.script import SHOWS, is_typed, render
from flacheck.capabilities.repro.passes.readable_form import reading
from flacheck.capabilities.repro.reducer import polish, reduce
from flacheck.capabilities.repro.verification import (
    LONGEST_RUN,
    ScriptRun,
    run_script,
    surviving_ir,
)
from flacheck.capabilities.repro.versions import ReleaseVerdict, Table
from flacheck.model import Cell, Record, Verdict
from flacheck.pipeline.job import count_processors

# A candidate may take so many times the seconds that the cell took, a short one at least these.
_PATIENCE = 10.0
_SHORTEST_TIMEOUT = 20.0
# So many seconds at least has each release that may decide something for the original.
_ORIGINAL_TIMEOUT = 120.0
# And so many at most each release that decides nothing.
_FAR_TIMEOUT = 20.0
# Compiles beside one a release that the end takes: two for the form that is read, two for the IR.
_LAST_COMPILES = 4
# Runs of scripts beside one a release that the end takes, where the failure shows.
_LAST_RUNS = 6


@dataclass
class Reproduction:
    """A failure that a specimen shows by itself. `search` reduces that specimen, `finish` verifies
    the best that was found; an interrupt between the two loses nothing. `original` fails as
    `record` says, and `table` is what every release makes of it; `log` are the lines of log.txt.
    `complete` says whether the search came to its end."""

    cell: Cell
    compilers: Compilers
    kind: FailureKind
    record: Record
    original: Specimen
    oracle: Oracle
    best: Specimen
    table: Table
    log: list[str] = field(default_factory=list)
    complete: bool = False

    def search(self) -> Iterator[Improvement]:
        """Each improvement, until nothing smaller fails or the budget is spent."""
        try:
            self.compare()
        except BudgetSpent:
            return
        # A candidate that makes the compiler hang must not cost what many others would.
        asked = [self.cell.toolchain, *self.oracle.contrasts]
        slowest = max(self.table[name].seconds for name in asked)
        self.compilers.patience = max(_SHORTEST_TIMEOUT, _PATIENCE * slowest)
        for step in reduce(self.best, self.kind.first, self.kind.passes, self.oracle):
            self.best = step.best
            event = Improvement(step.by, step.best.lines, step.best.nodes, self.oracle.effort)
            size = f"{event.lines} lines, {event.nodes} nodes"
            self.log.append(f"{event.by}: {size} after {event.effort.ran} compiles")
            yield event
        self.complete = not self.compilers.budget.spent

    def compare(self) -> None:
        """Ask the releases around the failing one of the original, and keep what sets this failure
        apart. May raise BudgetSpent; what was asked until then is kept in the table."""
        if len(self.table) > 1:
            return
        failure, own = self.oracle.failure, self.cell.toolchain
        if failure.faster:
            # What is slow is told from all the others together.
            self._ask_of_original(list(self.compilers.releases))
        else:
            self._ask_outward()
        kept = versions.contrasts(self.table, own, failure.faster)
        if not failure.faster:
            kept += [name for name in versions.neighbours(self.table, own) if name not in kept]
        self.oracle.contrasts = {name: self.table[name] for name in self.table if name in kept}
        if identity.has_passes(self.record) and identity.is_weak(self.record):
            self.oracle.failing_pass = identity.failing_pass(self.original, own, self.compilers)
        passing = [name for name, verdict in self.oracle.contrasts.items() if verdict.compiles]
        others = [name for name in self.oracle.contrasts if name not in passing]
        said = f"must keep compiling: {versions.join_versions(passing) or 'no other release'}"
        if others:
            said += f"; must keep failing in their own way: {versions.join_versions(others)}"
        if self.oracle.failing_pass:
            said += f"; must keep failing in {self.oracle.failing_pass}"
        self.log.append(f"{self.record.signature}; {said}")

    def _ask_outward(self) -> None:
        """Ask of the original from the failing release on, older and newer, until one compiles it:
        no release behind that one decides anything."""
        names = list(self.compilers.releases)
        at = names.index(self.cell.toolchain)
        sides = [names[:at][::-1], names[at + 1 :]]
        while any(sides):
            self._ask_of_original([side[0] for side in sides if side])
            for side in sides:
                if side and self.table[side.pop(0)].compiles:
                    side.clear()

    def _ask_of_original(self, releases: Sequence[str]) -> None:
        """What these releases make of the original, put into the table."""
        until = self.oracle.failure.elsewhere
        asked = self.compilers.compile_on(self.original, releases, until, self._jobs)
        table = dict(self.table)
        try:
            for release, record in asked:
                table[release] = ReleaseVerdict.of(record)
        finally:
            self.table = {name: table[name] for name in self.compilers.releases if name in table}

    def _ask_the_rest(self) -> None:
        """What the releases farther away make of the original, none for long: they decide nothing,
        and a large kernel may take minutes on each."""
        self.compilers.patience = min(self.compilers.patience, _FAR_TIMEOUT)
        try:
            self._ask_of_original([n for n in self.compilers.releases if n not in self.table])
        except BudgetSpent:
            self.complete = False

    @property
    def _jobs(self) -> int:
        """How many releases are asked side by side: one alone where seconds decide."""
        if self.oracle.failure.faster:
            return 1
        return count_processors()

    def draft(self) -> dict[str, str]:
        """The best so far as scripts that nobody has run yet, by file name."""
        return {SCRIPT: self._script(self.best), ORIGINAL: self._script(self.original)}

    def _script(self, specimen: Specimen) -> str:
        return render(specimen, self.kind.symptom(self.cell, self.record, specimen))

    def finish(self, runs: int = 3, everywhere: bool = True) -> Reproduced:
        """The best so far, readable, its script run in fresh processes: where it fails, and then
        `everywhere` as long as the budget lasts."""
        budget, own = self.compilers.budget, self.cell.toolchain
        # The form that is read may cost half of what is left, for the runs must be made.
        budget.reserve_seconds /= 2
        budget.reserve_compiles = 0
        reduced = self._readable()
        budget.release()
        for signature, count in sorted(self.oracle.slips.items()):
            self.log.append(f"candidates rejected because they fail with {signature}: {count}")
        script, shown = self._simplest_script(reduced)
        shown += self._runs(script, own, runs - len(shown))
        exits = {}
        if shown:
            # One run that shows the failure says more than others that do not.
            statuses = [run.status for run in shown]
            exits[own] = min(statuses)
        original_script = self._script(self.original)
        of_original = self._runs(original_script, own, 1)
        # Those that tell this failure from others come first, for the time may not reach for all.
        others = list(self.oracle.contrasts)
        if everywhere:
            others += [n for n in self.compilers.releases if n not in (own, *others)]
        table = self._table_of(reduced, [own, *others])
        exits |= self._exits(script, others)
        if everywhere:
            self._ask_the_rest()
        return Reproduced(
            cell=self.cell,
            record=self.record,
            original=self.original,
            reduction=reduced,
            script=script,
            original_script=original_script,
            effort=self.oracle.effort,
            runs=Runs(sum(run.status == SHOWS for run in shown), len(shown)),
            original_table=self.table,
            reduced_table=table,
            exits={name: exits[name] for name in self.compilers.releases if name in exits},
            neighbours=tuple(versions.neighbours(self.table, own)),
            original_exit=of_original[0].status if of_original else None,
            output="".join(run.output for run in shown[:1]),
            failing_pass=self._failing_pass(reduced),
            complete=self.complete,
            ttir=self._surviving_ir(reduced),
            log=tuple(self.log),
        )

    def _table_of(self, specimen: Specimen, releases: Sequence[str]) -> Table:
        """What these releases make of a specimen, oldest first, as far as the budget reaches."""
        table: Table = {}
        try:
            for name, record in self.compilers.compile_on(specimen, releases, None, self._jobs):
                table[name] = ReleaseVerdict.of(record)
        except BudgetSpent:
            self.complete = False
        return {name: table[name] for name in self.compilers.releases if name in table}

    def _readable(self) -> Specimen:
        if self.best == self.original:
            # Nothing was reduced, so its own names say the most.
            return self.best
        try:
            return polish(self.best, reading, self.oracle)
        except BudgetSpent:
            self.complete = False
            return self.best

    def _runs(self, script: str, release: str, times: int) -> list[ScriptRun]:
        """Runs of a script in fresh processes under a release; none when the time is over."""
        seconds = self.compilers.budget.seconds_left
        if times < 1:
            return []
        if seconds <= 0:
            self.complete = False
            return []
        toolchain = self.compilers.releases[release]
        runs = run_script(script, toolchain, min(seconds, LONGEST_RUN), times)
        if seconds < LONGEST_RUN and not all(run.has_ended for run in runs):
            # The budget ended it, so it says nothing of the release.
            self.complete = False
            runs = [run for run in runs if run.has_ended]
        return runs

    def _exits(self, script: str, releases: Sequence[str]) -> dict[str, int]:
        """The exit status of a script on these releases, as far as the time reaches."""
        threads = ThreadPoolExecutor(self._jobs)
        try:
            answers = [threads.submit(self._runs, script, release, 1) for release in releases]
            runs = [answer.result() for answer in answers]
        finally:
            # A second Ctrl-C does not wait for the scripts that are running.
            threads.shutdown(wait=False, cancel_futures=True)
        return {name: ran[0].status for name, ran in zip(releases, runs) if ran}

    def _simplest_script(self, reduced: Specimen) -> tuple[str, list[ScriptRun]]:
        """The script by types alone where that shows the failure, else as a launch; its first
        run, if there was time for one."""
        own, record = self.cell.toolchain, self.record
        try:
            # Compiled to its end: a reduction's own record stops at the failing stage.
            record = self.compilers.compile(reduced, own)
        except BudgetSpent:
            self.complete = False
        symptom = self.kind.symptom(self.cell, record, reduced)
        if is_typed(reduced):
            script = render(reduced, symptom, typed=True)
            runs = self._runs(script, own, 1)
            if any(run.status == SHOWS for run in runs):
                return script, runs
        script = render(reduced, symptom)
        return script, self._runs(script, own, 1)

    def _failing_pass(self, reduced: Specimen) -> str | None:
        if not identity.has_passes(self.record) or self.compilers.budget.seconds_left <= 0:
            return None
        return identity.failing_pass(reduced, self.cell.toolchain, self.compilers)

    def _surviving_ir(self, reduced: Specimen) -> str | None:
        if self.compilers.budget.seconds_left <= 0:
            return None
        cell = reduced.cell(self.cell.toolchain)
        return surviving_ir(cell, self.oracle.failure, self.compilers)


def begin(cell: Cell, compilers: Compilers) -> Reproduction:
    """The cell's failure, shown by a specimen of its own; may raise NotReproduced, or BudgetSpent
    when the time is over before that."""
    budget = compilers.budget
    started = budget.elapsed_seconds
    first = compilers.judge_cell(cell)
    # An interpreter, its import of the compiler, a compile: so much a run of a script takes, too.
    took = budget.elapsed_seconds - started
    if first.verdict not in (Verdict.FAILS, Verdict.COMPILES):
        raise NotReproduced(f"{cell.key[:12]} is {first.verdict.value}: {first.reason}")
    # A release may take much longer than another: 90 s were seen where others took 6.
    compilers.patience = max(_ORIGINAL_TIMEOUT, _PATIENCE * first.seconds)
    count = len(compilers.releases)
    runs = _LAST_RUNS + count / count_processors()
    budget.keep_back(count + _LAST_COMPILES, runs * took)
    kind = kind_of(cell, first)
    failure = kind.same(first)
    original = kind.original(cell, compilers)
    alone = compilers.compile(original, cell.toolchain, failure.until)
    compiles = f"{cell.key[:12]} compiles under {cell.toolchain} in"
    if first.verdict is Verdict.COMPILES and alone.seconds < SECONDS:
        raise NotReproduced(f"{compiles} {alone.seconds:.1f} s: there is nothing to reduce")
    if not failure.shows(alone):
        raise NotReproduced(
            f"cut out of its program, {cell.kernel.name} does not fail in the same way: "
            f"{alone.signature or alone.verdict.value} instead of {first.signature}"
        )
    operations: frozenset[OperationTypes] = frozenset()
    if original.stage == "compile":
        operations = identity.original_operations(original)
    oracle = Oracle(compilers, cell.toolchain, failure, {}, operations)
    table = {cell.toolchain: ReleaseVerdict.of(alone)}
    begun = Reproduction(cell, compilers, kind, first, original, oracle, original, table)
    if first.verdict is Verdict.COMPILES:
        # Only the other releases tell what is slow.
        begun.record = _slow(first, begun)
    return begun


def _slow(first: Record, begun: Reproduction) -> Record:
    """The record of a compile that is slow beside other releases, as a finding."""
    begun.compare()
    slow = versions.as_slow(first, begun.table)
    if slow is None:
        raise NotReproduced(
            f"{first.key[:12]} compiles under {first.toolchain} in {first.seconds:.1f} s, which is "
            "not slow beside other releases"
        )
    return slow
