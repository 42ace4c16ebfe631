"""flacheck scan: compile the cells of a matrix and report what works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.api import settings
from flacheck.cli import common, completion, flags
from flacheck.cli.flags import option
from flacheck.cli.progress import follow

_BUDGET = "Try N settings for each failure, with --fallbacks."
_CAPTURED = "Read what --package launches from FILE; the first shard writes it."
_CONFIGS = (
    "Compile one configuration a kernel, size and dtype (usual), a few extreme ones too (edges), "
    "or all of them (own). Default: own up to 1,000 configurations, else edges."
)
_WITH_TESTS = "With --package DIR, also record what the checkout's own tests launch (pytest)."
_STRICT = "Exit 3 when any cell is unknown, or a captured kernel has changed since."


@common.command(
    examples=[
        (
            "Which of these releases is good for my GPU?",
            "flacheck scan --triton 3.2.0,3.3.0,3.7.1 --target h100",
        ),
        (
            "Everything that a package launches, under the releases that torch requires",
            "flacheck scan --package flash-linear-attention==0.4.2 --torch 2.9,2.10 --target h100",
        ),
        (
            "My own kernels, recorded by `flacheck capture`",
            'flacheck scan launches.jsonl --triton ">=3.4"',
        ),
    ],
    exits={
        0: "every cell compiles, or its failures are tolerated or waived",
        1: "a failure that is not tolerated, waived or in the baseline",
        3: "no verdict was reached, or an exact release could not be had",
        4: "the selection is empty",
    },
)
def scan(
    context: typer.Context,
    matrix: Annotated[
        str | None,
        flags.argument(
            metavar="MATRIX", selects=True, help=flags.MATRIX_HELP, complete=completion.matrices
        ),
    ] = None,
    package: flags.Packages = [],
    configs: str | None = option(
        None, panel=flags.WHAT, selects=True, metavar="usual|edges|own", help=_CONFIGS
    ),
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
    executor: flags.Executor = "local",
    cache_from: flags.CacheFrom = None,
    cache_to: flags.CacheTo = None,
    strategy: flags.Strategy = "all",
    shard: str | None = option(
        None, panel=flags.HOW, metavar="I/N", help="Compile part I of N, split by cell key."
    ),
    captured: Path | None = option(None, panel=flags.WHAT, metavar="FILE", help=_CAPTURED),
    with_tests: bool = option(False, "--with-tests", panel=flags.WHAT, help=_WITH_TESTS),
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    until: str | None = option(
        None,
        panel=flags.HOW,
        selects=True,
        metavar="STAGE",
        complete=completion.stages,
        help="Stop after this compiler stage, such as ttgir.",
    ),
    fresh: flags.Fresh = False,
    max_failures: int | None = option(
        None, panel=flags.HOW, metavar="N", min=1, help="Stop after N failures."
    ),
    dry_run: bool = option(
        False, "--dry-run", panel=flags.HOW, help="List the cells; compile nothing."
    ),
    trust: flags.Trust = False,
    fallbacks: bool = option(
        False, "--fallbacks", panel=flags.HOW, help="Search and compile fallbacks for each failure."
    ),
    fallback_budget: int = option(48, panel=flags.HOW, metavar="N", min=1, help=_BUDGET),
    strict: bool = option(False, "--strict", panel=flags.OUTPUT, selects=True, help=_STRICT),
    store: flags.StoreDir = Path(".flacheck"),
    baseline: flags.BaselineFile = None,
    write_baseline: flags.WriteBaseline = None,
    format: flags.Format = "table",
    output: flags.Output = None,
    reports: flags.Reports = [],
) -> int:
    """Compile kernels under releases, GPUs and dtypes; name failures.

    The report lists what compiles, what fails and why, and which (torch, Triton) pairs are good.
    """
    from flacheck.reports import scan as scan_report

    formats = common.check_output(format, output, reports)
    about = common.subject(context)
    if not any([about["matrix"], about["package"], kernel, op]):
        _show_packages()
    if dry_run:
        return _list_cells(context, format, output)
    with follow() as on_event:
        arguments = common.arguments(context, flacheck.scan, **about, on_event=on_event)
        run = flacheck.scan(**arguments)
    common.show_all(lambda: scan_report.report(run.view, run.baseline), format, output, formats)
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

    if not common.is_typed(context, "package"):
        settings.check_dry_run(common.subject(context)["package"])
    with follow(resumable=False) as on_event:
        arguments = common.arguments(
            context, flacheck.plan_scan, **common.subject(context), on_event=on_event
        )
        plans = flacheck.plan_scan(**arguments)
    cells = [cell for plan in plans for cell in plan.cells]
    sizes_from = {cell.key: plan.sizes_from(cell) for plan in plans for cell in plan.cells}
    if format == "table":
        common.write(plan_report.lines(cells, sizes_from), output)
    else:
        report = plan_report.report([plan.name for plan in plans], cells, sizes_from)
        common.show(format, report, output)
    common.say(f"{len(cells)} cells; nothing was compiled (--dry-run)")
    return Exit.OK
