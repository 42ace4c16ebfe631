"""flacheck repro: a failing cell as a minimal standalone script, verified on every release."""

from __future__ import annotations

from pathlib import Path

import typer

import flacheck
from flacheck.cli import common, completion, flags
from flacheck.cli.flags import option
from flacheck.cli.progress import follow


@common.command(
    examples=[
        (
            "A bug report for a failing cell of a scan (a key from its report)",
            "flacheck repro a7758764",
        ),
        (
            "Select the cell by flags, and stop after ten minutes",
            "flacheck repro seeds --kernel '*fwd_kernel_o' --triton 3.3.0 --target sm70 "
            "--dtype fp16 --num-warps 4 --budget 10m",
        ),
    ],
    exits={
        0: "the script shows the failure where the kernel has it",
        1: "the failure cannot be reproduced",
        3: "another release behaves differently with the script",
        4: "the selection is empty",
    },
)
def repro(
    context: typer.Context,
    cell: flags.Cell = None,
    matrix: flags.Matrix = None,
    package: flags.Package = [],
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    num_warps: flags.NumWarps = [],
    num_stages: flags.NumStages = [],
    toolchain: flags.Toolchain = [],
    triton: list[str] = option(
        [],
        panel=flags.WITH,
        selects=True,
        metavar="X",
        complete=completion.releases,
        help="Select the release that fails: a version, a wheel or a build.",
    ),
    torch: list[str] = option(
        [],
        panel=flags.WITH,
        selects=True,
        metavar="X",
        complete=completion.torch_releases,
        help="Select the release that fails, by torch.",
    ),
    releases: list[str] = option(
        [],
        panel=flags.WITH,
        selects=True,
        metavar="SPEC",
        complete=completion.releases,
        help="Verify the script on these releases or builds. Default: all.",
    ),
    # Most reductions end by themselves after fewer than 300 compiles.
    budget: str = option(
        "1000",
        panel=flags.HOW,
        metavar="N|TIME",
        help="Spend at most N compiles, or a time (120s, 15m, 1h), on the whole command.",
    ),
    runs: int = option(
        3, panel=flags.HOW, min=1, metavar="N", help="Run the script N times where it fails."
    ),
    jobs: flags.Jobs = 0,
    memory: flags.Memory = 8192,
    trust: flags.Trust = False,
    store: flags.StoreDir = Path(".flacheck"),
    format: flags.ShortFormat = "table",
    output: Path | None = option(
        None,
        "--output",
        "-o",
        panel=flags.OUTPUT,
        metavar="DIR",
        help="Write to DIR. Default: repro-KEY8.",
    ),
) -> int:
    """Reduce a failure to a script that imports only Triton.

    The script is verified on every release, and comes with the text of an issue.
    """
    from flacheck import reports
    from flacheck.reports import repro as repro_report

    reports.check(format, reports.TABLE_OR_JSON)
    with follow(resumable=False) as on_event:
        arguments = common.arguments(context, flacheck.repro, on_event=on_event)
        reproduction = flacheck.repro(**arguments)
    if reproduction.result is None:
        common.say("flacheck cannot reduce C++ yet: this is the preprocessed unit and its command")
        common.write([f"{reproduction.folder / name}\n" for name in reproduction.files], None)
    else:
        common.show(
            format,
            repro_report.report(reproduction.result, reproduction.folder, list(reproduction.files)),
        )
    return reproduction.exit_code
