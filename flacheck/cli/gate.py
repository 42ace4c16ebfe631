"""flacheck gate: the pins of torch and triton against records and advisories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck.cli import common, completion, flags
from flacheck.cli.flags import option
from flacheck.cli.progress import follow

_FILES = (
    "pyproject.toml, requirements or constraints files (one installation together), uv.lock. "
    "Default: every supported file in this directory; if there is none, the installed environment."
)
_SCAN = "Compile allowed releases that have no stored result."
_REFRESH = "Ask the package index for new releases first (--scan does)."
_STRICT = "Exit 1 on an advisory, 3 on a release without a complete record."
_TRITON = "Judge these Triton releases: one more pin beside those of the files."
_TOOLCHAIN = "Judge pins of nvcc (nvidia-cuda-nvcc), or these releases of it: nvcc>=13.0,<13.3."
_TORCH = "Judge these torch releases: one more pin beside those of the files."


@common.command(
    examples=[
        ("Are the pins of this project safe?", "flacheck gate --target h100"),
        (
            "In CI, on a machine without stored results",
            "flacheck gate --package . --baseline .flacheck-baseline.json --format github",
        ),
        ("Narrow the pins to what passes", "flacheck gate --scan --fix"),
    ],
    exits={
        0: "every allowed release with a record is good or screened",
        1: "an allowed release fails, or pins contradict each other",
        3: "no allowed release has a complete record; more with --strict",
    },
)
def gate(
    context: typer.Context,
    files: Annotated[list[Path] | None, flags.argument(metavar="FILES", help=_FILES)] = None,
    installed: bool = option(
        False, "--installed", panel=flags.WHAT, help="Judge the installed environment, not files."
    ),
    suggest: bool = option(
        False, "--suggest", panel=flags.OUTPUT, help="Show the narrowest change that passes."
    ),
    fix: bool = option(
        False, "--fix", panel=flags.OUTPUT, help="Write that change into the files."
    ),
    scan: bool = option(False, "--scan", panel=flags.HOW, help=_SCAN),
    refresh: bool = option(False, "--refresh", panel=flags.HOW, help=_REFRESH),
    strict: bool = option(False, "--strict", panel=flags.OUTPUT, selects=True, help=_STRICT),
    matrix: flags.Matrix = None,
    package: flags.Package = [],
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    triton: list[str] = option(
        [], panel=flags.WITH, metavar="X", complete=completion.releases, help=_TRITON
    ),
    torch: list[str] = option(
        [], panel=flags.WITH, metavar="X", complete=completion.torch_releases, help=_TORCH
    ),
    toolchain: list[str] = option([], panel=flags.WITH, metavar="NAME[SPEC]", help=_TOOLCHAIN),
    jobs: flags.Jobs = 0,
    no_published: flags.NoPublished = False,
    results: flags.Results = None,
    store: flags.StoreDir = Path(".flacheck"),
    baseline: flags.BaselineFile = None,
    write_baseline: flags.WriteBaseline = None,
    format: flags.Format = "table",
    output: flags.Output = None,
    reports: flags.Reports = [],
) -> int:
    """Judge the releases that your pins of torch and triton allow.

    It judges by stored results, published ones and advisories, and compiles nothing without --scan.
    """
    from flacheck.reports import gate as gate_report

    formats = common.check_output(format, output, reports)
    with follow() as on_event:
        arguments = common.arguments(
            context,
            flacheck.gate,
            **common.subject(context),
            files=files or [],
            on_event=on_event,
        )
        result = flacheck.gate(**arguments)
    # Readers of a CI job's summary cannot type --suggest.
    changes = suggest or fix or format == "markdown"
    command = common.typed_command()
    common.show_all(
        lambda: gate_report.report(result, command, changes, strict), format, output, formats
    )
    return result.exit_code(strict)
