"""flacheck bisect: the releases between which a cell's result changes."""

import flacheck
from flacheck import Exit
from flacheck.api.options.commands import BisectOptions
from flacheck.cli import common, flags
from flacheck.cli.progress import follow


class BisectCommand(BisectOptions, flags.ShortReport, total=False):
    """The options of `flacheck bisect`."""

    cell: flags.Cell


@common.command(
    BisectCommand,
    examples=[
        ("Which releases have this failure? (a key from a report)", "flacheck bisect a77587643b91"),
        (
            "Which release broke a kernel of a matrix?",
            "flacheck bisect seeds --kernel chunk_gated_delta_rule_fwd_kernel_h "
            "--triton 3.2.0 --num-warps 8",
        ),
    ],
    exits={
        0: "a change lies between two releases",
        3: "no change can be shown",
        4: "the selection is empty",
    },
)
def bisect(call: common.Call[BisectCommand]) -> int:
    """Find the release that changes a cell's result."""
    from flacheck.reports import bisect as bisect_report

    with follow() as on_event:
        bisection = flacheck.bisect(**call.arguments(flacheck.bisect), on_event=on_event)
    call.show(bisect_report.report(bisection))
    # A change may lie between releases without a verdict.
    if not bisection.changes:
        return Exit.INCOMPLETE
    return Exit.OK
