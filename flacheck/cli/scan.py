"""flacheck scan: compile the cells of a matrix and say what works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common
from flacheck.config import settings
from flacheck.errors import Exit, UsageError

if TYPE_CHECKING:
    from flacheck.engine.plan import Plan


@common.command
def scan(
    context: typer.Context,
    matrix: Annotated[
        str | None,
        typer.Argument(
            metavar="[MATRIX]", help="A matrix by name, a YAML file, or a launches file (.jsonl)."
        ),
    ] = None,
    package: Annotated[
        str | None,
        typer.Option(
            metavar="NAME==VERSION|DIR",
            help="All that a package, or its checkout, launches, instead of a matrix.",
        ),
    ] = None,
    configs: Annotated[
        str | None,
        typer.Option(
            metavar="usual|own",
            help="One configuration a kernel and dtype (with --package the default), or all (of a launches file).",
        ),
    ] = None,
    kernel: common.Kernel = [],
    target: common.Target = [],
    dtype: common.Dtype = [],
    num_warps: common.NumWarps = [],
    num_stages: common.NumStages = [],
    toolchain: common.Toolchain = [],
    triton: common.Triton = [],
    jobs: common.Jobs = 0,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Only part I of N, split by cell key.")
    ] = None,
    timeout: common.Timeout = "auto",
    memory: common.Memory = 8192,
    until: Annotated[
        str | None, typer.Option(metavar="STAGE", help="Stop after this compiler stage, ttgir say.")
    ] = None,
    fresh: common.Fresh = False,
    max_failures: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after N failures.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be compiled, and compile nothing.")
    ] = False,
    trust: common.Trust = False,
    fallbacks: Annotated[
        bool,
        typer.Option(
            "--fallbacks", help="Search what to fall back to for each failure, and compile it."
        ),
    ] = False,
    fallback_budget: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="With --fallbacks: settings to try for each failure."
        ),
    ] = 48,
    strict: Annotated[bool, typer.Option("--strict", help="Any unknown cell exits 3.")] = False,
    store: common.StoreDir = Path(".flacheck"),
    format: common.Format = "table",
    output: common.Output = None,
) -> int:
    """Compile the cells of MATRIX; say what compiles, what fails and why, which pairs are known
    good.
    """
    from flacheck import reports
    from flacheck.analysis.exit_code import exit_code
    from flacheck.cli.progress import watch
    from flacheck.engine.session import Session
    from flacheck.inputs import planning
    from flacheck.inputs.subject import Subject
    from flacheck.reports import scan as scan_report
    from flacheck.scan.session import find_fallbacks, view
    from flacheck.store import Store

    reports.check(format)
    common.check_stage(until)
    selection = common.selection(
        kernel, target, dtype, num_warps, num_stages, [*toolchain, *triton]
    )
    if configs not in (None, "usual", "own"):
        raise UsageError(f"--configs {configs}: expected usual or own")
    if package is not None and _is_on_command_line(context, "matrix"):
        raise UsageError("a matrix and --package were given: a scan is about one of them")
    seconds = common.seconds(timeout)
    subject = Subject(matrix, package, trust, configs)
    plan = planning.plan(subject, selection, until, shard)
    for warning in plan.warnings:
        common.say(warning)
    if dry_run:
        common.write(_listed(plan), output)
        common.say(f"{len(plan.cells)} cells; nothing was compiled (--dry-run)")
        return Exit.OK
    with Store.open(store) as opened:
        session = Session(plan, opened, seconds, jobs, memory, fresh, max_failures)
        try:
            with watch(len(plan.cells)) as seen:
                for record in session.records():
                    seen(record)
            if fallbacks:
                find_fallbacks(session, fallback_budget)
        except KeyboardInterrupt:
            return common.interrupted()
        run_view = view(opened, [session.run], settings.waivers(Path.cwd()))
        common.show(format, scan_report.report(run_view), output)
    return exit_code(run_view.summary.tally, strict=strict)


def _is_on_command_line(context: typer.Context, parameter: str) -> bool:
    """Whether the user typed a parameter, rather than a settings file."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _listed(plan: Plan) -> Iterator[str]:
    """A line a cell, in the order they would be compiled."""
    for cell in plan.cells:
        options = " ".join(f"{name}={value}" for name, value in cell.options.items())
        shape = " ".join(f"{name}={value}" for name, value in cell.shape.items())
        words = (
            cell.key[:12],
            cell.toolchain,
            cell.target,
            cell.stage,
            cell.kernel.name,
            cell.dtype or "-",
            shape,
            options,
        )
        yield "  ".join(words).rstrip() + "\n"
