"""flacheck bench: the forms of an operator against each other on this machine's GPU."""

from __future__ import annotations

from typing import Annotated

import typer

import flacheck
from flacheck.cli import common, completion, flags
from flacheck.cli.progress import follow

_OPERATOR = "A family of flacheck's own kernels, or a glob: gla, '*delta_rule'."
_PACKAGE = "Time a package's operators instead; NAME alone is the one installed here."
_OP = "Select the package's operators by name: '*_gla'."
_FORM = "Select forms: chunk, fused_chunk, fused_recurrent, parallel."
_LENGTH = "Time these numbers of tokens."
_BATCH = "Time these numbers of sequences."
_HEADS = "Use N heads."
_HEAD_SIZE = "Use keys and values of this size."
_DTYPE = "Compute in this dtype."
_REPEATS = "Take medians of N runs, after the first one and two more."
_DEVICE = "Run here; cpu is Triton's interpreter, whose times say nothing."
_FORMAT = "Print the report in this format."
_FORMATS = "table|json|markdown|html"


@common.command(
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
def bench(
    context: typer.Context,
    operator: Annotated[str | None, flags.argument(metavar="OPERATOR", help=_OPERATOR)] = None,
    package: list[str] = flags.option(
        [],
        "--package",
        panel=flags.WHAT,
        metavar="NAME[==VERSION]|DIR",
        complete=completion.packages,
        help=_PACKAGE,
    ),
    op: list[str] = flags.option([], "--op", panel=flags.WHAT, metavar="GLOB", help=_OP),
    form: list[str] = flags.option([], "--form", panel=flags.WHAT, metavar="GLOB", help=_FORM),
    length: str = flags.option(
        "256,1024,4096,16384", panel=flags.WITH, metavar="N,N", help=_LENGTH
    ),
    batch: str = flags.option("1", panel=flags.WITH, metavar="N,N", help=_BATCH),
    heads: int = flags.option(16, panel=flags.WITH, metavar="N", min=1, help=_HEADS),
    head_size: int = flags.option(128, panel=flags.WITH, metavar="N", min=1, help=_HEAD_SIZE),
    dtype: str = flags.option("bf16", panel=flags.WITH, metavar="bf16|fp16|fp32", help=_DTYPE),
    repeats: int = flags.option(20, panel=flags.HOW, metavar="N", min=1, help=_REPEATS),
    device: str = flags.option("cuda", panel=flags.HOW, metavar="cuda|cpu", help=_DEVICE),
    format: str = flags.option(
        "table", "--format", panel=flags.OUTPUT, metavar=_FORMATS, help=_FORMAT
    ),
    output: flags.Output = None,
) -> int:
    """Time an operator's forms against each other on this machine's GPU."""
    from flacheck import reports
    from flacheck.reports import bench as bench_report

    reports.check(format, bench_report.FORMATS)
    with follow(resumable=False) as on_event:
        arguments = common.arguments(context, flacheck.bench)
        compared = flacheck.bench(**arguments, on_event=on_event)
    common.show(format, bench_report.report(compared.document), output)
    return compared.exit_code
