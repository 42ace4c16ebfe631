"""flacheck bisect: the releases or commits between which a cell's result changes."""

from pathlib import Path

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import common, completion, flags
from flacheck.cli.progress import follow

_FIND = "Find what broke the cell, what mended it, or every change."
_TRITON = (
    "Look at these releases. With selection flags or a file, a single version selects the failing "
    "cell."
)


@common.command(
    examples=[
        ("Which releases have this failure? (a key from a report)", "flacheck bisect a77587643b91"),
        (
            "Which release broke a kernel of a matrix?",
            "flacheck bisect seeds --kernel chunk_gated_delta_rule_fwd_kernel_h "
            "--triton 3.2.0 --num-warps 8",
        ),
        (
            "Which commit of a checkout mended a CUDA C++ unit?",
            "flacheck bisect --commits v1.0..HEAD --package . --kernel unit.cu "
            "--toolchain nvcc==13.0",
        ),
    ],
    exits={
        0: "a change lies between two releases or commits",
        3: "no change can be shown",
        4: "the selection is empty",
    },
)
def bisect(
    context: typer.Context,
    cell: flags.Cell = None,
    find: str = flags.option(
        "change", panel=flags.HOW, selects=True, metavar="fail|pass|change", help=_FIND
    ),
    every: bool = flags.option(
        False,
        "--every",
        panel=flags.HOW,
        help="Compile under every release, not only where the search needs it.",
    ),
    commits: str | None = flags.option(
        None,
        "--commits",
        panel=flags.WITH,
        metavar="A..B",
        help="Compile a CUDA C++ unit of a checkout at these commits, under one toolkit.",
    ),
    until: str | None = flags.option(
        None,
        panel=flags.HOW,
        selects=True,
        metavar="STAGE",
        help="Run each commit's compile up to this stage.",
        complete=completion.stages,
    ),
    matrix: flags.Matrix = None,
    package: flags.Package = [],
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    num_warps: flags.NumWarps = [],
    num_stages: flags.NumStages = [],
    toolchain: flags.Toolchain = [],
    triton: list[str] = flags.option(
        [], panel=flags.WITH, selects=True, metavar="X", complete=completion.releases, help=_TRITON
    ),
    torch: flags.Torch = [],
    define: flags.Define = [],
    jobs: flags.Jobs = 0,
    executor: flags.Executor = "local",
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    fresh: flags.Fresh = False,
    trust: flags.Trust = False,
    store: flags.StoreDir = Path(".flacheck"),
    format: flags.ShortFormat = "table",
    output: flags.Output = None,
) -> int:
    """Find the release or commit that changes a cell's result."""
    from flacheck import reports
    from flacheck.reports import bisect as bisect_report

    reports.check(format, reports.TABLE_OR_JSON)
    with follow() as on_event:
        arguments = common.arguments(context, flacheck.bisect, on_event=on_event)
        bisection = flacheck.bisect(**arguments)
    common.show(format, bisect_report.report(bisection), output)
    # A change may lie between releases without a verdict.
    if not bisection.changes:
        return Exit.INCOMPLETE
    return Exit.OK
