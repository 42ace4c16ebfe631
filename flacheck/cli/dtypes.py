"""flacheck dtypes: where a promotion breaks the dtypes that kernels get under mixed precision."""

from typing import Annotated

import flacheck
from flacheck.api.options.commands import DtypesOptions
from flacheck.cli import common, flags
from flacheck.cli.progress import follow

_TARGET = (
    "Modules, functions or model configs: MODULE:NAME or FILE.py:NAME. Default: every layer of the "
    "package."
)
_WORDS = flags.argument("TARGET", _TARGET, None, kind=list[str])


class DtypesCommand(DtypesOptions, total=False):
    """The options of `flacheck dtypes`."""

    words: Annotated[list[str], _WORDS]
    format: Annotated[str, flags.page_format("table|json|markdown|github|sarif|html")]
    output: flags.Output


@common.command(
    DtypesCommand,
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
def dtypes(call: common.Call[DtypesCommand]) -> int:
    """Find the line that breaks a kernel's dtypes under autocast.

    Needs torch, and no GPU.
    """
    from flacheck.reports import dtypes as dtypes_report

    with follow(resumable=False) as on_event:
        result = flacheck.dtypes(**call.arguments(flacheck.dtypes), on_event=on_event)
    call.show(dtypes_report.report(result))
    return result.exit_code
