"""flacheck gate: the pins of torch and triton against records and advisories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck.cli import common, flags
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


@common.command
def gate(
    context: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]", help=_FILES)] = None,
    installed: bool = option(
        False, "--installed", help="Judge the installed environment, not files."
    ),
    suggest: bool = option(False, "--suggest", help="Show the narrowest change that passes."),
    fix: bool = option(False, "--fix", help="Write that change into the files."),
    scan: bool = option(False, "--scan", help=_SCAN),
    refresh: bool = option(False, "--refresh", help=_REFRESH),
    strict: bool = option(False, "--strict", help=_STRICT),
    matrix: flags.Matrix = None,
    package: flags.Package = [],
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    triton: list[str] = option([], metavar="X", help=_TRITON),
    torch: list[str] = option([], metavar="X", help=_TORCH),
    toolchain: list[str] = option([], metavar="NAME[SPEC]", help=_TOOLCHAIN),
    jobs: flags.Jobs = 0,
    store: flags.StoreDir = Path(".flacheck"),
    baseline: flags.BaselineFile = None,
    write_baseline: flags.WriteBaseline = None,
    format: flags.Format = "table",
    output: flags.Output = None,
    reports: flags.Reports = [],
) -> int:
    """Judge the releases that your pins of triton, torch or nvcc allow, by stored results."""
    from flacheck.reports import gate as gate_report

    formats = common.check_output(format, output, reports)
    with follow() as on_event:
        arguments = common.arguments(
            context,
            flacheck.gate,
            **common.subject(context),
            files=files or [],
            # The releases of a project's scans are not pins of the project.
            triton=common.typed_only(context, "triton"),
            torch=common.typed_only(context, "torch"),
            toolchain=common.typed_only(context, "toolchain"),
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
