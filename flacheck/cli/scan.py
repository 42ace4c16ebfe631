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
    from flacheck.inputs.expand import Selection
    from flacheck.inputs.planning import Plan


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
    from flacheck.inputs import planning

    reports.check(format)
    common.check_stage(until)
    selection = common.selection(
        kernel, target, dtype, num_warps, num_stages, [*toolchain, *triton]
    )
    if package is not None:
        source = context.get_parameter_source("matrix")
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError("a matrix and --package were given: a scan is about one of them")
        plan = _package(package, _configs(configs, "usual"), selection, until, shard)
    else:
        chosen = _configs(configs, "own")
        plan = planning.plan(matrix or "quick", selection, until, shard, common.say, trust, chosen)
    for warning in plan.warnings:
        common.say(warning)
    if dry_run:
        common.write(_listed(plan), output)
        return Exit.OK
    budget = fallback_budget if fallbacks else 0
    return _run(
        plan,
        common.seconds(timeout),
        jobs,
        memory,
        fresh,
        max_failures,
        strict,
        store,
        format,
        output,
        budget,
    )


def _configs(asked: str | None, default: str) -> str:
    if asked not in (None, "usual", "own"):
        raise UsageError(f"--configs {asked}: usual or own is wanted")
    return asked or default


def _package(
    package: str, configs: str, selection: Selection, until: str | None, shard: str | None
) -> Plan:
    from flacheck.inputs import packaged

    return packaged.plan(package, selection, until, shard, common.say, configs)


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
    common.say(f"{len(plan.cells)} cells; nothing was compiled (--dry-run)")


def _run(
    plan: Plan,
    timeout: float | None,
    jobs: int,
    memory: int,
    fresh: bool,
    max_failures: int | None,
    strict: bool,
    store: Path,
    format: str,
    output: Path | None,
    budget: int,
) -> int:
    from flacheck.cli.progress import watch
    from flacheck.reports import scan as run_report
    from flacheck.scan import session
    from flacheck.store import Store

    waived = settings.waivers(Path.cwd())
    with Store.open(store) as opened:
        running = session.Session(plan, opened, timeout, jobs, memory, fresh, max_failures, waived)
        try:
            with watch(len(plan.cells)) as seen:
                for record in running.records(seen.say):
                    seen(record)
            for _ in running.fallbacks(budget, common.say) if budget else ():
                pass
        except KeyboardInterrupt:
            return common.interrupted()
        view = running.view()
        common.show(format, run_report.report(view), output)
        return running.exit_code(view, strict)
