"""From a failing cell to a verified script: the search as events, then what came of it."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.analysis.slow import SECONDS
from flacheck.engine.judge import judge
from flacheck.model import Cell, Outcome, Record, Verdict
from flacheck.repro import versions
from flacheck.repro.budget import Budget
from flacheck.repro.compilers import Compilers
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kinds import FailureKind, kind_of
from flacheck.repro.oracle import Oracle, SameFailure
from flacheck.repro.original import NotReproduced
from flacheck.repro.output.files import ORIGINAL, SCRIPT
from flacheck.repro.output.result import Improvement, Reproduced, Runs
from flacheck.repro.output.script import CANNOT_TELL, SHOWS, is_typed, render
from flacheck.repro.passes.readable_form import reading
from flacheck.repro.reducer import polished, reduce
from flacheck.repro.versions import Table
from flacheck.toolchains.base import Toolchain

# A candidate may take so many times the seconds that the cell took, a short one at least these.
_PATIENCE = 10.0
_SHORTEST_TIMEOUT = 20.0
# Seconds for one run of a script: a compile that takes longer is not waited for.
_LONGEST = 900
_LOCATION = re.compile(r"\s*loc\((?:[^()]|\([^()]*\))*\)")


@dataclass
class Reproduction:
    """A failure that a specimen shows by itself. `search` reduces that specimen, `finish` verifies
    the best that was found; an interrupt between the two loses nothing. `original` fails as
    `record` says, and `table` is what every release makes of it; `log` are the lines of log.txt."""

    cell: Cell
    compilers: Compilers
    kind: FailureKind
    record: Record
    original: Specimen
    table: Table
    oracle: Oracle
    log: list[str]
    best: Specimen

    def search(self) -> Iterator[Improvement]:
        """Each improvement, until nothing smaller fails or the budget is spent."""
        for step in reduce(self.best, self.kind.first, self.kind.passes, self.oracle):
            self.best = step.best
            event = Improvement(step.by, step.best.lines, step.best.nodes, self.oracle.effort)
            size = f"{event.lines} lines, {event.nodes} nodes"
            self.log.append(f"{event.by}: {size} after {event.effort.ran} compiles")
            yield event

    def draft(self) -> dict[str, str]:
        """The best so far as scripts that nobody has run yet, by file name."""
        return {SCRIPT: self._script(self.best), ORIGINAL: self._script(self.original)}

    def _script(self, specimen: Specimen) -> str:
        return render(specimen, self.kind.symptom(self.cell, self.record, specimen))

    def finish(self, runs: int = 3, complete: bool = True) -> Reproduced:
        """The best so far, readable, its script run in fresh processes on every release."""
        # The few compiles that the end takes are allowed, whatever was spent.
        budget = self.compilers.budget
        budget.compiles = budget.seconds = None
        reduced = polished(self.best, reading, self.oracle)
        ran = budget.ran
        for signature, count in sorted(self.oracle.slips.items()):
            self.log.append(f"candidates rejected because they fail with {signature}: {count}")
        table = versions.judged(reduced, self.compilers)
        script = self._simplest_script(reduced)
        releases, own = self.compilers.releases, self.cell.toolchain
        shown = sum(exit_status(script, releases[own]) == SHOWS for _ in range(runs))
        return Reproduced(
            cell=self.cell,
            record=self.record,
            original=self.original,
            reduced=reduced,
            script=script,
            original_script=self._script(self.original),
            effort=replace(self.oracle.effort, ran=ran),
            runs=Runs(shown, runs),
            original_table=self.table,
            reduced_table=table,
            exits={name: exit_status(script, releases[name]) for name in table},
            complete=complete,
            ttir=surviving_ir(reduced.cell(own), self.oracle.failure, self.compilers),
            log=tuple(self.log),
        )

    def _simplest_script(self, reduced: Specimen) -> str:
        """The script by types alone where that shows the failure, else as a launch."""
        # Compiled to its end: a reduction's own record stops at the failing stage.
        record = self.compilers.compile(reduced, self.cell.toolchain)
        symptom = self.kind.symptom(self.cell, record, reduced)
        if is_typed(reduced):
            script = render(reduced, symptom, typed=True)
            if exit_status(script, self.compilers.releases[self.cell.toolchain]) == SHOWS:
                return script
        return render(reduced, symptom)


def begin(cell: Cell, compilers: Compilers, budget: Budget) -> Reproduction:
    """The cell's failure, shown by itself and judged by every release; may raise NotReproduced."""
    first = judge(cell, compilers.ask(cell))
    if first.verdict not in (Verdict.FAILS, Verdict.COMPILES):
        raise NotReproduced(f"{cell.key[:12]} is {first.verdict.value}: {first.reason}")
    # A candidate that makes the compiler hang must not cost what many others would.
    compilers.timeouts.fixed = max(_SHORTEST_TIMEOUT, _PATIENCE * first.seconds)
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
    table = versions.judged(original, compilers, failure.elsewhere)
    record = first
    if first.verdict is Verdict.COMPILES:
        slow = versions.as_slow(first, table)
        if slow is None:
            raise NotReproduced(
                f"{compiles} {first.seconds:.1f} s, which is not slow beside other releases"
            )
        record = slow
    contrasts = versions.contrasts(table, cell.toolchain, failure.faster)
    passing = versions.listed(contrasts) or "no other release"
    log = [f"{record.signature}; must keep compiling: {passing}"]
    oracle = Oracle(compilers, cell.toolchain, failure, contrasts)
    # What was compiled so far only showed that there is something to reduce.
    compilers.budget = budget
    budget.begin()
    return Reproduction(cell, compilers, kind, record, original, table, oracle, log, original)


def exit_status(script: str, toolchain: Toolchain) -> int:
    """A script's exit status under one release alone; 125 also when it does not end."""
    with tempfile.TemporaryDirectory(
        prefix="flacheck-repro-", ignore_cleanup_errors=True
    ) as folder:
        file = Path(folder, "repro.py")
        file.write_text(script, encoding="utf-8")
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": folder,
            "TMPDIR": folder,
            # What was compiled before would not fail again.
            "TRITON_CACHE_DIR": f"{folder}/cache",
            "PYTHONPATH": ":".join(toolchain.paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            **toolchain.environment,
        }
        try:
            done = subprocess.run(
                [sys.executable, "-s", str(file)],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LONGEST,
            )
        except subprocess.TimeoutExpired:
            return CANNOT_TELL
    return done.returncode


def surviving_ir(cell: Cell, failure: SameFailure, compilers: Compilers) -> str | None:
    """A specimen's TTIR when compiling that fails in the same way, else None."""
    if cell.stage != "compile":
        return None
    shown = compilers.ask(cell, op="show", until="ttir")
    if shown.outcome is not Outcome.FINISHED or not shown.facts.get("ttir"):
        return None
    text = without_locations(shown.facts["ttir"])
    attempt = compilers.ask(cell, op="compile_ir", ir=text, until=None)
    if failure.shows(judge(cell, attempt)):
        return text
    return None


def without_locations(text: str) -> str:
    """IR without the places of its source, which name files of the machine it was made on."""
    lines = [line for line in text.splitlines() if not line.startswith("#loc")]
    return "\n".join(_LOCATION.sub("", line) for line in lines).strip() + "\n"
