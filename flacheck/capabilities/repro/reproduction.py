"""The reproduction of a failing cell: a search that yields events, then a verified script."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from flacheck.capabilities.repro import identity, versions
from flacheck.capabilities.repro.budget import BudgetSpent
from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.kernel.operation_types import (
    OperationTypes,
    describe_operations,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kinds import FailureKind, kind_of
from flacheck.capabilities.repro.oracle import Oracle
from flacheck.capabilities.repro.original import NotReproduced
from flacheck.capabilities.repro.output.changes import changes
from flacheck.capabilities.repro.output.files import ORIGINAL, SCRIPT
from flacheck.capabilities.repro.output.result import Improvement, Reproduced, Runs
from flacheck.capabilities.repro.output.script import SHOWS, render, render_short
from flacheck.capabilities.repro.output.symptom import Symptom
from flacheck.capabilities.repro.passes.readable_form import reading
from flacheck.capabilities.repro.passes.search import Pass
from flacheck.capabilities.repro.reducer import polish, reduce
from flacheck.capabilities.repro.verification import (
    LONGEST_RUN,
    ScriptRun,
    run_script,
    surviving_ir,
)
from flacheck.capabilities.repro.versions import ReleaseVerdict, Table, has_verdict
from flacheck.evidence.analysis.slow import SECONDS
from flacheck.model import Cell, Record, Verdict

# A candidate may take this many times the seconds of the cell, but at least the second number.
_PATIENCE = 10.0
_SHORTEST_TIMEOUT = 20.0
# The least timeout of a release whose verdict on the original matters.
_ORIGINAL_TIMEOUT = 120.0
# The longest timeout of the reduction on a release that did not drive the search.
_FURTHER_TIMEOUT = 60.0
# The longest timeout of a release whose verdict on the original does not matter, and the seconds
# after which no further release compiles the original.
_FAR_TIMEOUT = 20.0
_FAR_SECONDS = 30.0
# The compiles at the end beside one a release: two for the readable form, two for the IR.
_LAST_COMPILES = 4
# The runs of scripts at the end beside one a release, on the failing release.
_LAST_RUNS = 6
# The decorator of an autotuner is refused while a package is imported.
_REFUSED_KEY = "FC603"
Item = TypeVar("Item")


@dataclass
class Reproduction:
    """A failure that a standalone specimen shows.

    `search` reduces the specimen and `finish` verifies the best one; an interrupt between them
    loses nothing. `original` fails as in `record`. `table` has the verdicts of releases on it,
    `compared` those of the releases around the failing one, compiled up to the failing stage. `log`
    are the lines of log.txt. `complete` is True after a search that the budget did not end.
    """

    cell: Cell
    compilers: Compilers
    kind: FailureKind
    record: Record
    original: Specimen
    oracle: Oracle
    best: Specimen
    table: Table
    compared: Table = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    complete: bool = False
    _original_runs: list[ScriptRun] = field(default_factory=list)

    def run_original(self) -> ScriptRun | None:
        """Return the first run of the original's script; None if the time is over.

        A status other than `SHOWS` means that no script can detect the failure by its symptom.
        """
        if not self._original_runs:
            script = self._script(self.original)
            self._original_runs = self._runs(script, self.cell.toolchain, 1)
        if not self._original_runs:
            return None
        return self._original_runs[0]

    def search(self) -> Iterator[Improvement]:
        """Yield each improvement, until nothing smaller fails or the budget is spent.

        The failing release alone drives the search. A small candidate is then compiled under the
        neighbouring releases. If they reject it, the search continues from the last
        candidate that they accept, and they check the further ones.
        """
        chain = [self.best]
        budget = self.compilers.budget
        if not self.compared:
            self._limit_patience([self.cell.toolchain])
            with budget.half_reserved():
                for event in self._improve(self.kind.first):
                    chain.append(self.best)
                    yield event
                is_whole = not budget.spent
            try:
                self.compare()
                is_same = self.oracle(self.best)
                if not is_same:
                    self.best = self._last_accepted(chain)
            except BudgetSpent:
                return
            if is_same and is_whole:
                self.complete = True
                return
        self._limit_patience([self.cell.toolchain, *self.oracle.contrasts])
        # The first passes would propose the rejected candidates again, most of them in vain.
        first = self.kind.first if self.best == self.original else ()
        yield from self._improve(first)
        self.complete = not budget.spent

    def _improve(self, first: Sequence[Pass]) -> Iterator[Improvement]:
        """Yield the improvements of one reduction of the best specimen."""
        for step in reduce(self.best, first, self.kind.passes, self.oracle):
            self.best = step.best
            event = Improvement(step.by, step.best.lines, step.best.nodes, self.oracle.effort)
            size = f"{event.lines} lines, {event.nodes} nodes"
            self.log.append(f"{event.by}: {size} after {event.effort.ran} compiles")
            yield event

    def _limit_patience(self, releases: Sequence[str]) -> None:
        """Limit the seconds of a candidate: one that hangs must not take the time of many."""
        verdicts = {**self.compared, **self.table}
        slowest = max(verdicts[name].seconds for name in releases)
        self.compilers.patience = max(_SHORTEST_TIMEOUT, _PATIENCE * slowest)

    def _last_accepted(self, chain: Sequence[Specimen]) -> Specimen:
        """Return the last specimen of a chain of improvements that the contrasts accept.

        The first one is the original; the search halves the chain.
        """
        accepted, rejected = 0, len(chain) - 1
        while rejected - accepted > 1:
            middle = (accepted + rejected) // 2
            if self.oracle(chain[middle]):
                accepted = middle
            else:
                rejected = middle
        size = f"{chain[accepted].lines} lines, {chain[accepted].nodes} nodes"
        self.log.append(f"neighbouring releases fail differently: back to {size}")
        return chain[accepted]

    def compare(self) -> None:
        """Compile the original on the releases around the failing one, and select the contrasts.

        May raise BudgetSpent; `compared` then has the verdicts so far.
        """
        if len(self.compared) > 1:
            return
        failure, own = self.oracle.failure, self.cell.toolchain
        self.compared = {own: self.table[own]}
        # Releases differ in speed: one took 90 s where others took 6 s.
        self.compilers.patience = max(_ORIGINAL_TIMEOUT, _PATIENCE * self.table[own].seconds)
        if failure.faster:
            # A compile is slow only in comparison with all other releases.
            self._compare_with(list(self.compilers.releases))
        else:
            self._compare_outward()
        if failure.until is None:
            # These compiles ran to the end.
            self.table = self.compared
        contrasts = versions.contrasts(self.compared, own, failure.faster)
        if not failure.faster:
            contrasts += versions.neighbours(self.compared, own)
        names = [name for name in self.compared if name in contrasts]
        self.oracle.contrasts = {name: self.compared[name] for name in names}
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

    def _compare_outward(self) -> None:
        """Compile the original from the failing release outward until a release compiles it.

        Releases beyond that one are not compiled. A GPU limit does not depend on the release, so
        only the nearest releases compile a kernel over a limit.
        """
        names = list(self.compilers.releases)
        at = names.index(self.cell.toolchain)
        sides = [names[:at][::-1], names[at + 1 :]]
        if self.record.stage == "load":
            sides = [side[:1] for side in sides]
        while any(sides):
            next_releases = [side[0] for side in sides if side]
            self._compare_with(next_releases)
            for side in sides:
                if side and self.compared[side.pop(0)].compiles:
                    side.clear()

    def _compare_with(self, releases: Sequence[str]) -> None:
        """Add the verdicts of these releases on the original, up to the failing stage."""
        self.compared = self._with_verdicts(self.compared, releases, self.oracle.failure.until)

    def _with_verdicts(self, table: Table, releases: Sequence[str], until: str | None) -> Table:
        """Return a table with the verdicts of these releases on the original added."""
        larger = dict(table)
        for release, record in self.compilers.compile_on(
            self.original, releases, until, self._jobs
        ):
            larger[release] = ReleaseVerdict.of(record)
        return self._in_order(larger)

    def _in_order(self, by_release: Mapping[str, Item]) -> dict[str, Item]:
        """Return values by release, oldest release first."""
        return {name: by_release[name] for name in self.compilers.releases if name in by_release}

    def _compile_rest(self) -> None:
        """Compile the original on the remaining releases, the nearest first, with a short timeout.

        A large kernel may take minutes on each release, so the last ones may be left out.
        """
        self.compilers.patience = min(self.compilers.patience, _FAR_TIMEOUT)
        budget = self.compilers.budget
        end = budget.elapsed_seconds + _FAR_SECONDS
        names = list(self.compilers.releases)
        at = names.index(self.cell.toolchain)
        rest = [name for name in names if name not in self.table]
        rest.sort(key=lambda name: abs(names.index(name) - at))
        while rest and budget.elapsed_seconds < end:
            next_releases, rest = rest[: self._jobs], rest[self._jobs :]
            try:
                self.table = self._with_verdicts(self.table, next_releases, None)
            except BudgetSpent:
                self.complete = False
                return

    @property
    def _jobs(self) -> int:
        """The number of releases that compile in parallel: one if seconds matter."""
        if self.oracle.failure.faster:
            return 1
        return self.compilers.jobs

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
        if reduction.lines > self.original.lines:
            # The readable form has more lines, and so may a body with a helper's statements in it.
            reduction = min(self.best, self.original, key=lambda each: each.lines)
        budget.release()
        if self.oracle.ended_early:
            self.log.append("the search ended: no line of its short body was removed for some time")
        for signature, count in sorted(self.oracle.slips.items()):
            self.log.append(f"candidates rejected because they fail with {signature}: {count}")
        symptom = self._symptom(reduction)
        script = render(reduction, symptom)
        script_runs = self._runs(script, own, runs)
        statuses = [run.status for run in script_runs]
        table = self._verified_table(reduction, everywhere)
        # A script takes as long as the compile, which did not end on a release without a verdict.
        names = dict.fromkeys([*self.oracle.contrasts, *table])
        judged_releases = [name for name in names if name != own and has_verdict(table.get(name))]
        exits = self._exits(script, judged_releases)
        if statuses:
            # One run that shows the failure counts more than others that do not.
            exits[own] = min(statuses)
        if everywhere:
            self._compile_rest()
        return Reproduced(
            cell=self.cell,
            record=self.record,
            original=self.original,
            reduction=reduction,
            script=script,
            original_script=self._script(self.original),
            effort=self.oracle.effort,
            runs=Runs(statuses.count(SHOWS), len(statuses)),
            releases=tuple(self.compilers.releases),
            original_table=self.table,
            reduced_table=table,
            exits=self._in_order(exits),
            lost_neighbours=tuple(self._lost_neighbours(reduction)),
            output=script_runs[0].output if script_runs else "",
            failing_pass=self._failing_pass(reduction),
            complete=self.complete and set(self.table) == set(self.compilers.releases),
            ttir=self._surviving_ir(reduction),
            short_script=self._short_script(reduction, symptom),
            log=tuple(self.log),
            changes=tuple(changes(self.original, reduction)),
            operations=tuple(describe_operations(reduction)),
        )

    def _verified_table(self, reduction: Specimen, everywhere: bool) -> Table:
        """Return the verdicts of the contrasts or, with `everywhere`, of all releases."""
        # The contrasts come first, because the time may not suffice for all.
        first_releases = [self.cell.toolchain, *self.oracle.contrasts]
        table = self._table_of(reduction, first_releases)
        if not everywhere:
            return table
        further_releases = [name for name in self.compilers.releases if name not in first_releases]
        self.compilers.patience = min(self.compilers.patience, _FURTHER_TIMEOUT)
        return self._in_order({**table, **self._table_of(reduction, further_releases)})

    def _lost_neighbours(self, reduction: Specimen) -> list[str]:
        """Return the nearest releases that judge the reduction unlike the original."""
        failure = self.oracle.failure
        lost = []
        try:
            for name in versions.neighbours(self.compared or self.table, self.cell.toolchain):
                record = self.compilers.compile(reduction, name, failure.until)
                if not self.compared[name].agrees(ReleaseVerdict.of(record)):
                    lost.append(name)
        except BudgetSpent:
            self.complete = False
        return lost

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
        torch = self.compilers.torch
        runs = run_script(script, toolchain, min(seconds, LONGEST_RUN), times, torch)
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

    def _symptom(self, reduction: Specimen) -> Symptom:
        """Return the symptom of a reduction."""
        record = self.record
        try:
            # A complete compile, because the reduction's record stops at the failing stage.
            record = self.compilers.compile(reduction, self.cell.toolchain)
        except BudgetSpent:
            self.complete = False
        return self.kind.symptom(self.cell, record, reduction)

    def _short_script(self, reduction: Specimen, symptom: Symptom) -> str | None:
        """Return a script without a check if its output shows the symptom, else None."""
        script = render_short(reduction, symptom)
        if script is None:
            return None
        for run in self._runs(script, self.cell.toolchain, 1):
            end = run.signal or f"exit status {run.status}"
            if run.has_ended and (symptom.words in run.output or symptom.words == end):
                return script
        return None

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
    check_stage(cell)
    budget = compilers.budget
    start = budget.elapsed_seconds
    first = compilers.judge_cell(cell)
    # A run of a script takes about as long: an interpreter, its import of the compiler, a compile.
    seconds_per_run = budget.elapsed_seconds - start
    if first.verdict not in (Verdict.FAILS, Verdict.COMPILES):
        raise NotReproduced(f"{cell.key[:12]} is {first.verdict.value}: {first.reason}")
    _check_import(cell, first)
    # Releases differ in speed: one took 90 s where others took 6 s.
    compilers.patience = max(_ORIGINAL_TIMEOUT, _PATIENCE * first.seconds)
    count = len(compilers.releases)
    runs = _LAST_RUNS + count / compilers.jobs
    budget.keep_back(count + _LAST_COMPILES, runs * seconds_per_run)
    kind = kind_of(cell, first)
    failure = kind.same(first)
    original = kind.original(cell, compilers)
    alone = compilers.compile(original, cell.toolchain, failure.until)
    compiles = f"{cell.key[:12]} compiles under {cell.toolchain} in"
    if first.verdict is Verdict.COMPILES and alone.compile_seconds < SECONDS:
        raise NotReproduced(f"{compiles} {alone.compile_seconds:.1f} s: there is nothing to reduce")
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
    if identity.has_passes(first) and identity.is_weak(first):
        oracle.failing_pass = identity.failing_pass(original, cell.toolchain, compilers)
    reproduction = Reproduction(cell, compilers, kind, first, original, oracle, original, table)
    if first.verdict is Verdict.COMPILES:
        # A compile is slow only in comparison with other releases.
        reproduction.record = _slow(first, reproduction)
    return reproduction


def check_stage(cell: Cell) -> None:
    """Raise NotReproduced for a call that its package refuses: it ends before any compile."""
    if cell.stage != "call":
        return
    operator = cell.kernel.name.replace(":", ".")
    selection = ["--package", str(cell.kernel.package), "--op", operator]
    place = ["--toolchain", cell.toolchain, "--target", cell.target]
    command = shlex.join(["flacheck", "scan", *selection, *place])
    raise NotReproduced(
        f"{cell.kernel.name} is refused by its package before it launches a kernel, so there is no "
        f"compile to reduce: `{command}` shows the refusal, and `flacheck list advisories` what is "
        "known of the release"
    )


def _check_import(cell: Cell, first: Record) -> None:
    """Raise NotReproduced for a failing import, unless a kernel's decorator is refused in it."""
    if cell.stage != "import" or first.code == _REFUSED_KEY:
        return
    module = cell.kernel.name.partition(":")[0]
    raise NotReproduced(
        f"{cell.kernel.name} is the import of a package, which has no kernel to reduce: "
        f'`python -c "import {module}"` shows its failure beside {cell.toolchain}'
    )


def _slow(first: Record, reproduction: Reproduction) -> Record:
    """Return the record of a compile that is slow beside other releases, as a finding."""
    reproduction.compare()
    slow = versions.as_slow(first, reproduction.compared)
    if slow is None:
        raise NotReproduced(
            f"{first.key[:12]} compiles under {first.toolchain} in {first.seconds:.1f} s, which is "
            "not slow beside other releases"
        )
    return slow
