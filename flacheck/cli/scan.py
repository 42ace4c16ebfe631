"""flacheck scan: compile the cells of a matrix and say what works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common, flags
from flacheck.cli.flags import option
from flacheck.config import settings
from flacheck.errors import INSTALL_TORCH, EmptySelection, Exit, UsageError

if TYPE_CHECKING:
    from flacheck.analysis.observed import Observed
    from flacheck.analysis.summary import RunView
    from flacheck.baseline.form import Baseline
    from flacheck.engine.plan import Plan
    from flacheck.engine.session import Session
    from flacheck.inputs.expand import Selection
    from flacheck.inputs.subject import Subject
    from flacheck.model import Question
    from flacheck.reports.document import Report
    from flacheck.store import Store

_BUDGET = "Try N settings for each failure, with --fallbacks."
_CAPTURED = "Read what --package launches from FILE; the first shard writes it."
_CONFIGS = (
    "Compile one configuration a kernel and dtype (usual), or all of them (own). Default: usual "
    "with --package, own with a launches file."
)
_WITH_TESTS = "With --package DIR, also record what the checkout's own tests launch (pytest)."
_STRICT = "Exit 3 when any cell is unknown, or a captured kernel has changed since."


@common.command
def scan(
    context: typer.Context,
    matrix: Annotated[
        str | None, typer.Argument(metavar="[MATRIX]", help=flags.MATRIX_HELP)
    ] = None,
    package: flags.Package = None,
    configs: str | None = option(None, metavar="usual|own", help=_CONFIGS),
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    num_warps: flags.NumWarps = [],
    num_stages: flags.NumStages = [],
    define: flags.Define = [],
    options: flags.Option = [],
    toolchain: flags.Toolchain = [],
    triton: flags.Triton = [],
    torch: flags.Torch = [],
    jobs: flags.Jobs = 0,
    shard: str | None = option(None, metavar="I/N", help="Compile part I of N, split by cell key."),
    captured: Path | None = option(None, metavar="FILE", help=_CAPTURED),
    with_tests: bool = option(False, "--with-tests", help=_WITH_TESTS),
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    until: str | None = option(
        None, metavar="STAGE", help="Stop after this compiler stage, ttgir say."
    ),
    fresh: flags.Fresh = False,
    max_failures: int | None = option(None, metavar="N", min=1, help="Stop after N failures."),
    dry_run: bool = option(False, "--dry-run", help="List the cells; compile nothing."),
    trust: flags.Trust = False,
    fallbacks: bool = option(
        False, "--fallbacks", help="Search and compile fallbacks for each failure."
    ),
    fallback_budget: int = option(48, metavar="N", min=1, help=_BUDGET),
    strict: bool = option(False, "--strict", help=_STRICT),
    store: flags.StoreDir = Path(".flacheck"),
    baseline: flags.BaselineFile = None,
    write_baseline: flags.WriteBaseline = None,
    format: flags.Format = "table",
    output: flags.Output = None,
) -> int:
    """Compile the cells of MATRIX; say what compiles, what fails and why, what is known good."""
    from flacheck import reports
    from flacheck.analysis.exit_code import exit_code
    from flacheck.scan.session import let_pass, view
    from flacheck.store import Store

    reports.check(format)
    known = common.baseline(baseline, write_baseline)
    waived = settings.waivers(Path.cwd())
    _check_stage(until)
    compilers = [*toolchain, *triton]
    chosen = (kernel, target, dtype, num_warps, num_stages, compilers, torch, op)
    selection = common.selection(*chosen, define, options)
    common.check_configs(configs)
    seconds = common.seconds(timeout)
    if matrix is None and package is None and not (kernel or op):
        _say_what_is_here()
    subject = common.subject(context, matrix, package, trust, configs)
    work = _ScanWork(
        subject=replace(subject, captured=captured, with_tests=with_tests),
        selection=selection,
        until=until,
        shard=shard,
        timeout=seconds,
        jobs=jobs,
        memory_mb=memory,
        again=fresh,
        max_failures=max_failures,
        lets_pass=let_pass(waived, known),
        fallback_budget=fallback_budget if fallbacks else None,
    )
    # No store is made by a question.
    if dry_run:
        return _list_cells(work.plan(), output)
    announced = work.announced()
    plan = None
    if announced is None:
        # A mistake in a matrix is found before a store is made.
        plan = work.plan()
    with Store.open(store) as opened:
        try:
            session = work.compiled(opened, plan, announced)
        except KeyboardInterrupt:
            return common.interrupted()
        run_view = view(opened, [session.run], waived, known)
        common.show(format, _report(run_view, known, baseline), output)
        if write_baseline:
            common.update_baseline(write_baseline, run_view.summary.standings)
    # The answer is about kernels that are no more.
    changed = [Exit.INCOMPLETE] if strict and session.plan.stale else []
    return exit_code(run_view.summary.tally, strict=strict, others=changed)


@dataclass(frozen=True)
class _ScanWork:
    """What a scan is to compile, and how, as its flags say."""

    subject: Subject
    selection: Selection
    until: str | None
    shard: str | None
    timeout: float | None
    jobs: int
    memory_mb: int
    again: bool
    max_failures: int | None
    lets_pass: Callable[[Observed], bool]
    # How many candidates are tried for a failure; None searches no fallbacks.
    fallback_budget: int | None

    def announced(self) -> Question | None:
        """What a scan of a package asks; None where the cells are known without a capture."""
        from flacheck.inputs import planning

        return planning.announced(self.subject, self.selection)

    def plan(self) -> Plan:
        """The cells, for which a package is captured."""
        from flacheck.inputs import planning

        plan = planning.plan(self.subject, self.selection, self.until, self.shard)
        common.say(*plan.warnings)
        return plan

    def compiled(self, store: Store, plan: Plan | None, announced: Question | None) -> Session:
        """The run in the store with all its cells compiled; without a plan the announced question
        is planned first."""
        from flacheck.cli.progress import follow
        from flacheck.engine.session import environment
        from flacheck.scan.session import find_fallbacks

        run = ""
        try:
            if announced is not None:
                # Begun before the capture: one that is interrupted was asked, and not answered.
                run = store.begin_run(environment(), announced.about, question=announced)
            session = self._session(store, plan or self.plan(), run)
            follow(session.records(), len(session.plan.cells))
            # After all records, for only then every failure is known.
            if self.fallback_budget is not None:
                find_fallbacks(session, self.fallback_budget)
        except (UsageError, EmptySelection):
            # What cannot be asked leaves no question behind.
            store.forget(run)
            raise
        return session

    def _session(self, store: Store, plan: Plan, run: str) -> Session:
        from flacheck.engine.session import Session

        return Session(
            plan,
            store,
            timeout=self.timeout,
            jobs=self.jobs,
            memory_mb=self.memory_mb,
            again=self.again,
            max_failures=self.max_failures,
            run=run,
            lets_pass=self.lets_pass,
        )


def _check_stage(until: str | None) -> None:
    """UsageError for the name of no compiler stage."""
    from flacheck.toolchains import stages

    if until is not None and until not in stages():
        allowed = ", ".join(stages())
        raise UsageError(f"--until {until}: there is no such stage; allowed are {allowed}")


def _report(run_view: RunView, known: Baseline | None, file: Path | None) -> Report:
    """The answer, beside what the baseline of a file knew."""
    from flacheck import __version__
    from flacheck.baseline.comparing import compare
    from flacheck.reports import scan as scan_report

    comparison = None
    if known is not None:
        comparison = compare(known, run_view.summary.standings, str(file), __version__)
    return scan_report.report(run_view, comparison)


def _say_what_is_here() -> None:
    """Nobody said what to scan: name the packages that are here, before flacheck's own kernels are
    scanned."""
    from flacheck.analysis.order import counted
    from flacheck.inputs import nearby

    here = nearby.look(Path.cwd())
    if here is None:
        return
    named = [f"{each.name} ({counted(each.kernels, 'kernel')})" for each in here.packages]
    gpu = f"A100 and H100 (no NVIDIA GPU was found here) and {here.here}"
    if here.gpu:
        gpu = f"this machine's {here.gpu} and {here.here}"
    common.say(
        f"packages with Triton kernels here: {', '.join(named)}",
        f"to scan one for {gpu}, run",
        *(f"  {command}" for command in here.commands()),
    )
    if not here.has_torch:
        common.say(f"a package is captured with torch: {INSTALL_TORCH}")
    common.say("no MATRIX and no --package were given: scanning flacheck's own kernels (quick)")


def _list_cells(plan: Plan, output: Path | None) -> int:
    """Write what would be compiled; the exit code."""
    common.write(_listed(plan), output)
    common.say(f"{len(plan.cells)} cells; nothing was compiled (--dry-run)")
    return Exit.OK


def _listed(plan: Plan) -> Iterator[str]:
    """A line a cell, in the order they would be compiled."""
    from flacheck.analysis.order import parameters, settings

    for cell in plan.cells:
        options = settings(cell.options)
        shape = parameters(cell) or settings(cell.shape)
        compiled = (cell.key[:12], cell.toolchain, cell.target, cell.stage, cell.kernel.name)
        yield "  ".join((*compiled, cell.dtype or "-", shape, options)).rstrip() + "\n"
