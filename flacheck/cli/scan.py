"""flacheck scan: compile the cells of a matrix and report what works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import common, flags
from flacheck.cli.flags import option
from flacheck.cli.progress import follow

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
    package: flags.Packages = [],
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
<<<<<<< HEAD
=======
    from flacheck.analysis.exit_code import exit_code
    from flacheck.capabilities.scan.session import let_pass, view
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
    if matrix is None and not package and not (kernel or op):
        _say_what_is_here()
    subjects = common.subjects(context, matrix, package, trust, configs)
    _check_captured(captured, subjects)
    works = [
        _ScanWork(
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
        for subject in subjects
    ]
    # No store is made by a question.
    if dry_run:
        plans = _for_each(works, _ScanWork.plan)
        return _list_cells(plans, format, output)
    # A mistake in a matrix, or in any package's name, is found before a store is made.
    scans = _for_each(works, _ScanWork.make_ready)
    with Store.open(store) as opened:
        try:
            sessions = _compile(scans, opened)
        except KeyboardInterrupt:
            return common.interrupted()
        run_view = view(opened, [session.run for session in sessions], waived, known)
        common.show(format, _report(run_view, known, baseline), output)
        if write_baseline:
            common.update_baseline(write_baseline, run_view.summary.standings)
    # The answer is about kernels that are no more.
    is_stale = any(session.plan.stale for session in sessions)
    changed = [Exit.INCOMPLETE] if strict and is_stale else []
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

    def make_ready(self) -> _ReadyScan:
        """The work with its question, or with its plan where the cells are known without a
        capture."""
        from flacheck.pipeline import planning

        question = planning.announced(self.subject, self.selection)
        plan = None
        if question is None:
            plan = self.plan()
        return _ReadyScan(self, question, plan)

    def plan(self) -> Plan:
        """The cells, for which a package is captured."""
        from flacheck.pipeline import planning

        plan = planning.plan(self.subject, self.selection, self.until, self.shard)
        common.say(*plan.warnings)
        return plan

    def compiled(self, store: Store, plan: Plan | None, announced: Question | None) -> Session:
        """The run in the store with all its cells compiled; without a plan the announced question
        is planned first. EmptySelection leaves no run."""
        from flacheck.cli.progress import follow
        from flacheck.pipeline.session import environment
        from flacheck.capabilities.scan.session import find_fallbacks

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
        from flacheck.pipeline.session import Session

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


@dataclass(frozen=True)
class _ReadyScan:
    """A scan before its first compile, with its question, or with its plan where the cells are
    known."""

    work: _ScanWork
    question: Question | None
    plan: Plan | None

    def compiled(self, store: Store, failures: int) -> Session:
        """The run with all its cells compiled, after so many failures of the runs before it."""
        work = self.work
        if work.max_failures is not None:
            work = replace(work, max_failures=work.max_failures - failures)
        return work.compiled(store, self.plan, self.question)


def _for_each(items: Sequence[_Item], call: Callable[[_Item], _Result]) -> list[_Result]:
    """Call a function with each item. An item whose selection is empty is named and left out;
    EmptySelection where all are."""
    results = []
    empty: list[EmptySelection] = []
    for item in items:
        try:
            results.append(call(item))
        except EmptySelection as error:
            empty.append(error)
    if not results:
        raise EmptySelection("; ".join(map(str, empty)))
    common.say(*map(str, empty))
    return results


def _compile(scans: Sequence[_ReadyScan], store: Store) -> list[Session]:
    """A finished session for each scan; after `--max-failures` failures the rest is left."""
    failures = 0

    def compile_next(scan: _ReadyScan) -> Session | None:
        nonlocal failures
        limit = scan.work.max_failures
        if limit is not None and failures >= limit:
            common.say(f"{scan.work.subject.name} is not scanned (--max-failures)")
            return None
        if len(scans) > 1:
            common.say(f"scanning {scan.work.subject.name}")
        session = scan.compiled(store, failures)
        failures += session.failures
        return session

    return [session for session in _for_each(scans, compile_next) if session is not None]


def _check_captured(file: Path | None, subjects: Sequence[Subject]) -> None:
    """Raise UsageError for a file of captures that several packages would share."""
    if file is not None and len(subjects) > 1:
        names = " and ".join(subject.name for subject in subjects)
        raise UsageError(
            f"--captured {file} holds the captures of one package, and --package names {names}:"
            " scan each by itself, with a file of its own"
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
>>>>>>> h6
    from flacheck.reports import scan as scan_report

    reports.check(format)
    about = common.subject(context)
    if not any([about["matrix"], about["package"], kernel, op]):
        _show_packages()
    if dry_run:
        return _list_cells(context, format, output)
    with follow() as on_event:
        arguments = common.arguments(context, flacheck.scan, **about, on_event=on_event)
        run = flacheck.scan(**arguments)
    common.show(format, scan_report.report(run.view, run.baseline), output)
    return run.exit_code


def _show_packages() -> None:
    """Print the packages with kernels that are installed here, as subjects for a scan."""
    from flacheck.api.nearby import look
    from flacheck.reports import nearby

    here = look(Path.cwd())
    if here is not None:
        common.say(*nearby.sentences(here))


def _list_cells(context: typer.Context, format: str, output: Path | None) -> int:
    """Write the cells that a scan would compile; return the exit code."""
    from flacheck.reports import plan as plan_report

    with follow(resumable=False) as on_event:
        arguments = common.arguments(
            context, flacheck.plan_scan, **common.subject(context), on_event=on_event
        )
        plans = flacheck.plan_scan(**arguments)
    cells = [cell for plan in plans for cell in plan.cells]
    if format == "table":
        common.write(plan_report.lines(cells), output)
    else:
        report = plan_report.report([plan.name for plan in plans], cells)
        common.show(format, report, output)
    common.say(f"{len(cells)} cells; nothing was compiled (--dry-run)")
    return Exit.OK
