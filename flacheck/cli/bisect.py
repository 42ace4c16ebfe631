"""flacheck bisect: the releases between which a cell's verdict or signature changes."""

from pathlib import Path

import typer

from flacheck.cli import common, flags
from flacheck.errors import Exit, UsageError

_FIND = "Find what broke the cell, what mended it, or every change."
_TRITON = (
    "Look at these releases. With selection flags or a file, a single version selects the failing "
    "cell."
)


@common.command
def bisect(
    context: typer.Context,
    cell: flags.Cell = None,
    find: str = flags.option("change", metavar="fail|pass|change", help=_FIND),
    matrix: flags.Matrix = None,
    package: flags.Package = [],
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    num_warps: flags.NumWarps = [],
    num_stages: flags.NumStages = [],
    toolchain: flags.Toolchain = [],
    triton: list[str] = flags.option([], metavar="X", help=_TRITON),
    torch: flags.Torch = [],
    jobs: flags.Jobs = 0,
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    fresh: flags.Fresh = False,
    trust: flags.Trust = False,
    store: flags.StoreDir = Path(".flacheck"),
    format: flags.ShortFormat = "table",
    output: flags.Output = None,
) -> int:
    """Find the releases between which CELL's verdict or signature changes."""
    # Commands import late: help does not wait for stores and compilers.
    from flacheck import reports
    from flacheck.bisect.history import Find
    from flacheck.bisect.sitting import Bisecting, releases
    from flacheck.cli.progress import follow
    from flacheck.inputs import cell as cells
    from flacheck.model import Purpose
    from flacheck.reports import bisect as bisect_report
    from flacheck.store import Store
    from flacheck.toolchains import torch_pins

    reports.check(format, reports.TABLE_OR_JSON)
    if find not in [each.value for each in Find]:
        raise UsageError(f"--find {find}: expected fail, pass or change")
    seconds = common.seconds(timeout)
    compilers = [*toolchain, *triton]
    selection = common.selection(kernel, target, dtype, num_warps, num_stages, compilers, torch, op)
    about = common.cells_of(context, cell, matrix, package, trust)
    with Store.open(store, create=not cells.needs_store(about)) as opened:
        purpose = Purpose.BISECT
        chosen = cells.choose(about, selection, opened, purpose, trust, seconds, jobs, memory)
        common.say(*chosen.warnings)
        there = releases(chosen.cell, selection.toolchains, chose=not cells.is_key(about))
        common.say(*there.warnings)
        sought = Find(find)
        sitting = Bisecting(chosen, there.choices, sought, opened, seconds, jobs, memory, fresh)
        try:
            follow(sitting.records(), len(sitting.choices))
        except KeyboardInterrupt:
            return common.interrupted()
    bisection = sitting.found()
    common.show(format, bisect_report.report(bisection, list(torch_pins.pins())), output)
    # That nothing was found is no answer: the change may lie where nothing gave a verdict.
    if not bisection.changes:
        return Exit.INCOMPLETE
    return Exit.OK
