"""flacheck dtypes: where a promotion breaks the dtypes that kernels get under mixed precision."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import flacheck
from flacheck.cli import common, completion, flags
from flacheck.cli.progress import follow

_TARGET = (
    "Modules, functions or model configs: MODULE:NAME or FILE.py:NAME; or, after --, a script and "
    "its arguments. Default: every layer of the package."
)
_AUTOCAST = "Run under autocast in these dtypes: fp16, bf16, off."
_PARAMS = "Make parameters and arguments in this dtype: fp32, bf16, fp16."
_ARG = "Give the constructor, or the call, this argument. Upper-case names are sizes: T=2048."
_DEVICE = "Imitate this card: h100, a100, v100 …"
_TRITON = "Import the target beside this Triton release. Default: installed, else the newest."
_BASELINE = "Exit 0 when FILE lists every finding."
_WRITE = "Write a baseline with all findings to FILE."
_SHARED = "Compile the kernels at head sizes 64, 128 and 256: what fits on each GPU."
_TARGETS = "Name the GPUs for --shared. Default: sm90, sm80, sm89, sm86, sm70, sm75."
_FORMAT = "Print the report in this format."
_FORMATS = "table|json|markdown|github|sarif|html"


@common.command(
    examples=[
        (
            "Which line breaks the dtypes of my layer's kernels under autocast?",
            "flacheck dtypes my_layer.py:Attention --autocast fp16",
        ),
        (
            "Every layer of a package, and the head sizes that fit each GPU",
            "flacheck dtypes --package flash-linear-attention==0.4.2 --shared --target sm86,sm90",
        ),
    ],
    exits={
        0: "every kernel gets the dtypes that it requires",
        1: "a line breaks a kernel's dtypes",
        3: "the target cannot be imported or run here",
        4: "the selection is empty",
    },
)
def dtypes(
    context: typer.Context,
    words: Annotated[
        list[str] | None, flags.argument(metavar="TARGET | -- SCRIPT.py ARG…", help=_TARGET)
    ] = None,
    package: flags.Package = [],
    autocast: list[str] = flags.option(
        ["fp16", "bf16"],
        panel=flags.WITH,
        selects=True,
        complete=completion.dtypes,
        metavar="DTYPE",
        help=_AUTOCAST,
    ),
    params: str = flags.option(
        "fp32", panel=flags.WITH, selects=True, metavar="fp32|bf16|fp16", help=_PARAMS
    ),
    arg: list[str] = flags.option([], panel=flags.WHAT, metavar="NAME=VALUE", help=_ARG),
    device: str = flags.option("h100", panel=flags.WITH, metavar="CARD", help=_DEVICE),
    triton: list[str] = flags.option(
        [], panel=flags.WITH, complete=completion.releases, metavar="X", help=_TRITON
    ),
    mend: bool = flags.option(
        True,
        "--mend/--no-mend",
        panel=flags.HOW,
        help="Apply the casts in a copy and run it again.",
    ),
    costs: bool = flags.option(
        True,
        "--costs/--no-costs",
        panel=flags.HOW,
        help="Measure the shared memory of the kernels that findings reach.",
    ),
    shared: bool = flags.option(False, "--shared", panel=flags.HOW, help=_SHARED),
    target_gpu: list[str] = flags.option(
        [],
        "--target",
        "-t",
        panel=flags.WITH,
        selects=True,
        complete=completion.targets,
        metavar="GPU",
        help=_TARGETS,
    ),
    jobs: flags.Jobs = 0,
    store: flags.StoreDir = Path(".flacheck"),
    baseline: Path | None = flags.option(
        None, panel=flags.OUTPUT, selects=True, metavar="FILE", help=_BASELINE
    ),
    write_baseline: Path | None = flags.option(
        None, panel=flags.OUTPUT, metavar="FILE", help=_WRITE
    ),
    format: str = flags.option(
        "table", "--format", panel=flags.OUTPUT, metavar=_FORMATS, help=_FORMAT
    ),
    output: flags.Output = None,
) -> int:
    """Find the line that breaks a kernel's dtypes under autocast.

    Needs torch, and no GPU.
    """
    from flacheck import reports
    from flacheck.reports import dtypes as dtypes_report

    reports.check(format, dtypes_report.FORMATS)
    changes: dict[str, Any] = {"words": words or []}
    # A script runs in its own mode unless another is chosen.
    for name in ("autocast", "params"):
        if not common.is_chosen(context, name):
            changes[name] = None
    with follow(resumable=False) as on_event:
        arguments = common.arguments(context, flacheck.dtypes, **changes, on_event=on_event)
        result = flacheck.dtypes(**arguments)
    common.show(format, dtypes_report.report(result), output)
    return result.exit_code
