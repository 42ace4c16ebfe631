"""flacheck diff: what changes between two releases, or two sets of stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck.cli import common, completion, flags
from flacheck.cli.flags import option
from flacheck.cli.progress import follow

_FROM = (
    "torch==2.9.*, triton==3.5.1, installed, newest, run:ID, a launches file, a run's JSON, or "
    "PACKAGE==VERSION."
)
_TRITON = "Choose this release of stored results, or compile two releases of a package with it."
_TO = "The same, for the other side."
_CONFIGS = (
    "Compare one configuration a kernel, size and dtype (usual), a few extreme ones too (edges), "
    "or all of them (own). Default: own up to 1,000 configurations, else edges."
)
_STRICT = "Exit 3 when a kernel has no verdict or is not launched any more."


@common.command(
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
def diff(
    context: typer.Context,
    from_: Annotated[str, flags.argument(metavar="FROM", help=_FROM)],
    to: Annotated[str, flags.argument(metavar="TO", help=_TO)],
    package: flags.Package = [],
    matrix: flags.Matrix = None,
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
    triton: list[str] = option(
        [],
        panel=flags.WITH,
        metavar="X",
        complete=completion.releases,
        help=_TRITON,
    ),
    jobs: flags.Jobs = 0,
    executor: flags.Executor = "local",
    cache_from: flags.CacheFrom = None,
    cache_to: flags.CacheTo = None,
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    fresh: flags.Fresh = False,
    trust: flags.Trust = False,
    no_published: flags.NoPublished = False,
    results: flags.Results = None,
    strict: bool = option(False, "--strict", panel=flags.OUTPUT, selects=True, help=_STRICT),
    store: flags.StoreDir = Path(".flacheck"),
    format: flags.Format = "table",
    output: flags.Output = None,
    reports: flags.Reports = [],
) -> int:
    """Compare two releases of torch or Triton: can I upgrade?

    FROM and TO are releases, stored runs or files. Published results answer if they can; else cells
    without a stored result are compiled.
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
            chosen=is_chosen,
            on_event=on_event,
        )
        result = flacheck.diff(**arguments)
    command = common.typed_command()
    common.show_all(lambda: diff_report.report(result, command), format, output, formats)
    return result.exit_code(strict)
