"""flacheck bench: the forms of an operator against each other on this machine's GPU."""

from typing import Annotated

import flacheck
from flacheck.api.options.commands import BenchOptions
from flacheck.cli import common, flags
from flacheck.cli.progress import follow

_OPERATOR = "A family of flacheck's own kernels, or a glob: gla, '*delta_rule'."


class BenchCommand(BenchOptions, total=False):
    """The options of `flacheck bench`."""

    operator: Annotated[str | None, flags.argument("OPERATOR", _OPERATOR, None)]
    format: Annotated[str, flags.page_format("table|json|markdown|html")]
    output: flags.Output


@common.command(
    BenchCommand,
    examples=[
        ("From which length on is chunk faster than fused_recurrent here?", "flacheck bench gla"),
        (
            "The same for a package that is installed beside torch",
            "flacheck bench --package fla-core --op '*_retention' --batch 1,8 --format html "
            "-o bench.html",
        ),
    ],
    exits={
        0: "every form that ran gives the same outputs",
        1: "outputs differ beyond the tolerance",
        3: "there is no GPU that torch can use, or no form runs",
        4: "the selection is empty",
    },
)
def bench(call: common.Call[BenchCommand]) -> int:
    """Time an operator's forms against each other on this machine's GPU."""
    from flacheck.reports import bench as bench_report

    with follow(resumable=False) as on_event:
        compared = flacheck.bench(**call.arguments(flacheck.bench), on_event=on_event)
    call.show(bench_report.report(compared))
    return compared.exit_code
