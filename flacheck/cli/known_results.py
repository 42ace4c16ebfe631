"""flacheck known: published results of a package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import flacheck
from flacheck import Exit
from flacheck.cli import common, flags
from flacheck.cli.flags import WHAT, WITH, option

_PACKAGE = "A package (all published versions), NAME==VERSION, a range (NAME>=0.4), or a matrix."
_TARGET = "Only these GPUs: sm90, h100, gfx942 …"
_TRITON = "Only these Triton releases."
_TORCH = "Only the Triton releases that these torch releases admit: 2.12, >=2.9."
_FORMATS = "table|json|markdown|html"
_FORMAT = "The format of the report; html is a page with a chart of kernels and releases."
RESULTS = "Read published results from this folder or URL instead of flacheck's own."


@common.command(
    examples=[
        (
            "Which releases fit this package on an H100?",
            "flacheck known flash-linear-attention==0.6.0 --target h100",
        ),
        (
            "Which releases of the package fit torch 2.12?",
            "flacheck known 'flash-linear-attention>=0.4' --torch 2.12",
        ),
        (
            "As one page, to look at every kernel",
            "flacheck known flash-linear-attention==0.6.0 --format html -o known.html",
        ),
    ],
    exits={
        0: "something is published about it",
        2: "nothing is published about it; the nearest version is named",
    },
)
def known(
    package: Annotated[str, flags.argument(metavar="PACKAGE[==V]", help=_PACKAGE)],
    target: list[str] = option(
        [], "--target", "-t", panel=WHAT, selects=True, metavar="GPU", help=_TARGET
    ),
    triton: list[str] = option([], panel=WITH, selects=True, metavar="X", help=_TRITON),
    torch: list[str] = option([], panel=WITH, selects=True, metavar="X", help=_TORCH),
    results: str | None = option(None, panel=WHAT, metavar="DIR|URL", help=RESULTS),
    store: flags.StoreDir = Path(".flacheck"),
    format: str = option("table", "--format", panel=flags.OUTPUT, metavar=_FORMATS, help=_FORMAT),
    output: flags.Output = None,
) -> int:
    """Show published results: failing kernels, good pairs and pins."""
    from flacheck import reports
    from flacheck.reports import known_results as known_report

    reports.check(format, known_report.FORMATS)
    answer = flacheck.known(
        package, target=target, triton=triton, torch=torch, results=results, store=store
    )
    views = []
    if format == "html":
        releases = [place.toolchain.partition("==")[2] for place in answer.places]
        for about in dict.fromkeys(place.about for place in answer.places):
            run = flacheck.published_run(about, target=target, triton=releases, results=results)
            views += [run.view] if run else []
    common.show(format, known_report.report(answer, views), output)
    return Exit.OK
