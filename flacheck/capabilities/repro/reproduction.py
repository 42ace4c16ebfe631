"""The reproduction of a failing cell: a search that yields events, then a verified script."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

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

# A candidate may take this many times the seconds of the cell, but at least the second number.
_PATIENCE = 10.0
_SHORTEST_TIMEOUT = 20.0
# The least timeout of a release whose verdict on the original matters.
_ORIGINAL_TIMEOUT = 120.0
# The longest timeout of a release whose verdict on the original does not matter.
_FAR_TIMEOUT = 20.0
# The compiles at the end beside one a release: two for the readable form, two for the IR.
_LAST_COMPILES = 4
# The runs of scripts at the end beside one a release, on the failing release.
_LAST_RUNS = 6
Item = TypeVar("Item")


@dataclass
class Reproduction:
    """A failure that a standalone specimen shows.

    `search` reduces the specimen and `finish` verifies the best one; an interrupt between them
    loses nothing. `original` fails as in `record`, and `table` has the verdict of every release on
    it; `log` are the lines of log.txt. `complete` is True after a full search.
    """

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
        """Yield each improvement, until nothing smaller fails or the budget is spent."""
        try:
            self.compare()
        except BudgetSpent:
            return
        # A candidate that makes the compiler hang must not take the time of many others.
        releases = [self.cell.toolchain, *self.oracle.contrasts]
        slowest = max(self.table[name].seconds for name in releases)
        self.compilers.patience = max(_SHORTEST_TIMEOUT, _PATIENCE * slowest)
        for step in reduce(self.best, self.kind.first, self.kind.passes, self.oracle):
            self.best = step.best
            event = Improvement(step.by, step.best.lines, step.best.nodes, self.oracle.effort)
            size = f"{event.lines} lines, {event.nodes} nodes"
            self.log.append(f"{event.by}: {size} after {event.effort.ran} compiles")
            yield event
        self.complete = not self.compilers.budget.spent

    def compare(self) -> None:
        """Compile the original on the releases around the failing one, and select the contrasts.

        May raise BudgetSpent; the table then has the verdicts so far.
        """
        if len(self.table) > 1:
            return
        failure, own = self.oracle.failure, self.cell.toolchain
        if failure.faster:
            # A compile is slow only in comparison with all other releases.
            self._compile_original(list(self.compilers.releases))
        else:
            self._compile_outward()
        contrasts = versions.contrasts(self.table, own, failure.faster)
        if not failure.faster:
            contrasts += versions.neighbours(self.table, own)
        self.oracle.contrasts = {name: self.table[name] for name in self.table if name in contrasts}
        if identity.has_passes(self.record) and identity.is_weak(self.record):
            self.oracle.failing_pass = identity.failing_pass(self.original, own, self.compilers)
        self.log.append(f"{self.record.signature}; {self._conditions()}")

    def _conditions(self) -> str:
        """Return the conditions on each specimen as a line of the log."""
        passing = []
        others = []
        for name, verdict in self.oracle.contrasts.items():
            if verdict.compiles:
                passing.append(name)
            else:
                others.append(name)
        text = f"must keep compiling: {versions.join_versions(passing) or 'no other release'}"
        if others:
            text += f"; must keep failing in their own way: {versions.join_versions(others)}"
        if self.oracle.failing_pass:
            text += f"; must keep failing in {self.oracle.failing_pass}"
        return text

    def _compile_outward(self) -> None:
        """Compile the original from the failing release outward until a release compiles it.

        No release beyond that one matters.
        """
        names = list(self.compilers.releases)
        at = names.index(self.cell.toolchain)
        sides = [names[:at][::-1], names[at + 1 :]]
        while any(sides):
            next_releases = [side[0] for side in sides if side]
            self._compile_original(next_releases)
            for side in sides:
                if side and self.table[side.pop(0)].compiles:
                    side.clear()

    def _compile_original(self, releases: Sequence[str]) -> None:
        """Add the verdicts of these releases on the original to the table."""
        until = self.oracle.failure.elsewhere
        records = self.compilers.compile_on(self.original, releases, until, self._jobs)
        table = dict(self.table)
        try:
            for release, record in records:
                table[release] = ReleaseVerdict.of(record)
        finally:
            self.table = self._in_order(table)

    def _in_order(self, by_release: Mapping[str, Item]) -> dict[str, Item]:
        """Return values by release, oldest release first."""
        return {name: by_release[name] for name in self.compilers.releases if name in by_release}

    def _compile_rest(self) -> None:
        """Compile the original on the remaining releases, with a short timeout.

        Their verdicts do not matter, and a large kernel may take minutes on each.
        """
        self.compilers.patience = min(self.compilers.patience, _FAR_TIMEOUT)
        try:
            rest = [name for name in self.compilers.releases if name not in self.table]
            self._compile_original(rest)
        except BudgetSpent:
            self.complete = False

    @property
    def _jobs(self) -> int:
        """The number of releases that compile in parallel: one if seconds matter."""
        if self.oracle.failure.faster:
            return 1
        return count_processors()

    def draft(self) -> dict[str, str]:
        """Return the best so far as unverified scripts, by file name."""
        return {SCRIPT: self._script(self.best), ORIGINAL: self._script(self.original)}

    def _script(self, specimen: Specimen) -> str:
        return render(specimen, self.kind.symptom(self.cell, self.record, specimen))

    def finish(self, runs: int = 3, everywhere: bool = True) -> Reproduced:
        """Return the best so far in readable form, its script verified in fresh processes.

        The script runs on the failing release and then, with `everywhere`, on the others as long as
        the budget lasts.
        """
        budget, own = self.compilers.budget, self.cell.toolchain
        # The readable form may cost half of the rest, because the script must still run.
        budget.reserve_seconds /= 2
        budget.reserve_compiles = 0
        reduction = self._readable()
        budget.release()
        for signature, count in sorted(self.oracle.slips.items()):
            self.log.append(f"candidates rejected because they fail with {signature}: {count}")
        script, script_runs = self._simplest_script(reduction)
        script_runs += self._runs(script, own, runs - len(script_runs))
        exits = {}
        statuses = [run.status for run in script_runs]
        if statuses:
            # One run that shows the failure counts more than others that do not.
            exits[own] = min(statuses)
        original_script = self._script(self.original)
        original_runs = self._runs(original_script, own, 1)
        # The contrasts come first, because the time may not suffice for all.
        others = list(self.oracle.contrasts)
        if everywhere:
            others += [n for n in self.compilers.releases if n not in (own, *others)]
        table = self._table_of(reduction, [own, *others])
        exits |= self._exits(script, others)
        if everywhere:
            self._compile_rest()
        return Reproduced(
            cell=self.cell,
            record=self.record,
            original=self.original,
            reduction=reduction,
            script=script,
            original_script=original_script,
            effort=self.oracle.effort,
            runs=Runs(statuses.count(SHOWS), len(statuses)),
            original_table=self.table,
            reduced_table=table,
            exits=self._in_order(exits),
            neighbours=tuple(versions.neighbours(self.table, own)),
            original_exit=original_runs[0].status if original_runs else None,
            output=script_runs[0].output if script_runs else "",
            failing_pass=self._failing_pass(reduction),
            complete=self.complete,
            ttir=self._surviving_ir(reduction),
            log=tuple(self.log),
        )

    def _table_of(self, specimen: Specimen, releases: Sequence[str]) -> Table:
        """Return the verdicts of these releases on a specimen, oldest first, within the budget."""
        table: Table = {}
        try:
            for name, record in self.compilers.compile_on(specimen, releases, None, self._jobs):
                table[name] = ReleaseVerdict.of(record)
        except BudgetSpent:
            self.complete = False
        return self._in_order(table)

    def _readable(self) -> Specimen:
        if self.best == self.original:
            # Without a reduction the original's own names are the most readable.
            return self.best
        try:
            return polish(self.best, reading, self.oracle)
        except BudgetSpent:
            self.complete = False
            return self.best

    def _runs(self, script: str, release: str, times: int) -> list[ScriptRun]:
        """Run a script in fresh processes under a release; return [] if the time is over."""
        seconds = self.compilers.budget.seconds_left
        if times < 1:
            return []
        if seconds <= 0:
            self.complete = False
            return []
        toolchain = self.compilers.releases[release]
        runs = run_script(script, toolchain, min(seconds, LONGEST_RUN), times)
        if seconds < LONGEST_RUN and not all(run.has_ended for run in runs):
            # The budget ended the run, so its status is not the release's.
            self.complete = False
            runs = [run for run in runs if run.has_ended]
        return runs

    def _exits(self, script: str, releases: Sequence[str]) -> dict[str, int]:
        """Return the exit status of a script on these releases, within the budget."""
        threads = ThreadPoolExecutor(self._jobs)
        try:
            futures = [threads.submit(self._runs, script, release, 1) for release in releases]
            runs = [future.result() for future in futures]
        finally:
            # A second Ctrl-C must not wait for the running scripts.
            threads.shutdown(wait=False, cancel_futures=True)
        exits = {}
        for name, own_runs in zip(releases, runs):
            if own_runs:
                exits[name] = own_runs[0].status
        return exits

    def _simplest_script(self, reduction: Specimen) -> tuple[str, list[ScriptRun]]:
        """Return the simplest script that shows the failure, with its first run.

        A script with types alone is simpler than one with a launch. Without time, no run is made.
        """
        own, record = self.cell.toolchain, self.record
        try:
            # A complete compile, because the reduction's record stops at the failing stage.
            record = self.compilers.compile(reduction, own)
        except BudgetSpent:
            self.complete = False
        symptom = self.kind.symptom(self.cell, record, reduction)
        if is_typed(reduction):
            script = render(reduction, symptom, by_types=True)
            runs = self._runs(script, own, 1)
            if any(run.status == SHOWS for run in runs):
                return script, runs
        script = render(reduction, symptom)
        return script, self._runs(script, own, 1)

    def _failing_pass(self, reduction: Specimen) -> str | None:
        if not identity.has_passes(self.record) or self.compilers.budget.seconds_left <= 0:
            return None
        return identity.failing_pass(reduction, self.cell.toolchain, self.compilers)

    def _surviving_ir(self, reduction: Specimen) -> str | None:
        if self.compilers.budget.seconds_left <= 0:
            return None
        cell = reduction.cell(self.cell.toolchain)
        return surviving_ir(cell, self.oracle.failure, self.compilers)


def begin(cell: Cell, compilers: Compilers) -> Reproduction:
    """Return the reproduction of a cell's failure in a standalone specimen.

    Raises:
        NotReproduced: If the failure does not show.
        BudgetSpent: If the budget is spent before the failure shows.
    """
    budget = compilers.budget
    start = budget.elapsed_seconds
    first = compilers.judge_cell(cell)
    # A run of a script takes about as long: an interpreter, its import of the compiler, a compile.
    seconds_per_run = budget.elapsed_seconds - start
    if first.verdict not in (Verdict.FAILS, Verdict.COMPILES):
        raise NotReproduced(f"{cell.key[:12]} is {first.verdict.value}: {first.reason}")
    # Releases differ in speed: one took 90 s where others took 6 s.
    compilers.patience = max(_ORIGINAL_TIMEOUT, _PATIENCE * first.seconds)
    count = len(compilers.releases)
    runs = _LAST_RUNS + count / count_processors()
    budget.keep_back(count + _LAST_COMPILES, runs * seconds_per_run)
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
    reproduction = Reproduction(cell, compilers, kind, first, original, oracle, original, table)
    if first.verdict is Verdict.COMPILES:
        # A compile is slow only in comparison with other releases.
        reproduction.record = _slow(first, reproduction)
    return reproduction


def _slow(first: Record, reproduction: Reproduction) -> Record:
    """Return the record of a compile that is slow beside other releases, as a finding."""
    reproduction.compare()
    slow = versions.as_slow(first, reproduction.table)
    if slow is None:
        raise NotReproduced(
            f"{first.key[:12]} compiles under {first.toolchain} in {first.seconds:.1f} s, which is "
            "not slow beside other releases"
        )
    return slow
