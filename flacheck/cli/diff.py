"""flacheck diff: what changes between two releases, or two sets of stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck.cli import common, flags
from flacheck.cli.flags import option
from flacheck.cli.progress import follow

_FROM = (
    "torch==2.9.*, triton==3.5.1, installed, newest, run:ID, a launches file, a run's JSON, or "
    "PACKAGE==VERSION."
)
_TRITON = "Choose this release of stored results, or compile two releases of a package with it."
_TO = "The same, for the other side."
_CONFIGS = (
    "Compare one configuration of each kernel and dtype (usual), or all of them (own). Default: "
    "usual."
)
_STRICT = "Exit 3 when a kernel has no verdict or is not launched any more."


@common.command
def diff(
    context: typer.Context,
    from_: Annotated[str, typer.Argument(metavar="FROM", help=_FROM)],
    to: Annotated[str, typer.Argument(metavar="TO", help=_TO)],
    package: flags.Package = [],
    matrix: flags.Matrix = None,
    configs: str | None = option(None, metavar="usual|own", help=_CONFIGS),
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    num_warps: flags.NumWarps = [],
    num_stages: flags.NumStages = [],
    define: flags.Define = [],
    options: flags.Option = [],
    triton: list[str] = option([], metavar="X", help=_TRITON),
    jobs: flags.Jobs = 0,
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    fresh: flags.Fresh = False,
    trust: flags.Trust = False,
    strict: bool = option(False, "--strict", help=_STRICT),
    store: flags.StoreDir = Path(".flacheck"),
    format: flags.Format = "table",
    output: flags.Output = None,
    reports: flags.Reports = [],
) -> int:
    """Report what changes between FROM and TO; compile cells without a stored result.

    Example: flacheck diff 'torch==2.9.*' 'torch==2.12.*' --package flash-linear-attention==0.4.2
    --target h100
    """
    from flacheck.reports import diff as diff_report

    formats = common.check_output(format, output, reports)
    # A stored run and a launches file come before the project's own subject.
    is_chosen = common.is_typed(context, "package") or common.is_typed(context, "matrix")
    with follow() as on_event:
        arguments = common.arguments(
            context,
            flacheck.diff,
            **common.subject(context),
            # FROM and TO name the releases here, not the project's settings.
            triton=common.typed_only(context, "triton"),
            chosen=is_chosen,
            on_event=on_event,
        )
        result = flacheck.diff(**arguments)
    command = common.typed_command()
    common.show_all(lambda: diff_report.report(result, command), format, output, formats)
    return result.exit_code(strict)
