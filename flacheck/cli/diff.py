"""flacheck diff: what changes between two releases, or two sets of stored results."""

from typing import Annotated

import flacheck
from flacheck.api.options.commands import DiffOptions
from flacheck.api.options.declaration import OUTPUT, switch
from flacheck.cli import common, flags
from flacheck.cli.progress import follow

_FROM = (
    "torch==2.9.*, triton==3.5.1, installed, newest, run:ID, a launches file, a run's JSON, or "
    "PACKAGE==VERSION."
)
_TO = "The same, for the other side."
_STRICT = "Exit 3 when a kernel has no verdict or is not launched any more."


class DiffCommand(DiffOptions, flags.FullReport, total=False):
    """The options of `flacheck diff`."""

    from_: Annotated[str, flags.argument("FROM", _FROM)]
    to: Annotated[str, flags.argument("TO", _TO)]
    strict: Annotated[bool, switch("--strict", _STRICT, OUTPUT, selects=True)]


@common.command(
    DiffCommand,
    examples=[
        (
            "Can I upgrade torch?",
            "flacheck diff 'torch==2.9.*' 'torch==2.12.*' "
            "--package flash-linear-attention==0.4.2 --target h100",
        ),
        (
            "Can I upgrade the package?",
            "flacheck diff flash-linear-attention==0.4.2 flash-linear-attention==0.6.0 "
            "--triton 3.6.0 --target h100",
        ),
        (
            "What does the newest Triton change for my launches?",
            "flacheck diff installed newest --matrix launches.jsonl",
        ),
    ],
    exits={
        0: "nothing that compiled fails",
        1: "a kernel that compiled fails, or the package refuses TO",
        3: "no verdict was reached; with --strict, a kernel lost its verdict",
        4: "the selection is empty",
    },
)
def diff(call: common.Call[DiffCommand]) -> int:
    """Compare two releases of torch or Triton: can I upgrade?

    FROM and TO are releases, stored runs or files. Published results answer if they can; else cells
    without a stored result are compiled.
    """
    from flacheck.reports import diff as diff_report

    formats = call.check_output()
    # A stored run and a launches file come before the project's own subject.
    is_chosen = call.is_typed("package") or call.is_typed("matrix")
    with follow() as on_event:
        arguments = call.arguments(flacheck.diff, **call.subject(), chosen=is_chosen)
        result = flacheck.diff(**arguments, on_event=on_event)
    command = common.typed_command()
    call.show_all(lambda: diff_report.report(result, command), formats)
    return result.exit_code(call.options["strict"])
