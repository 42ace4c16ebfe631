"""flacheck known: published results of a package."""

from typing import Annotated

import flacheck
from flacheck import Exit
from flacheck.api.options.commands import KnownOptions
from flacheck.cli import common, flags

_PACKAGE = "A package (all published versions), NAME==VERSION, a range (NAME>=0.4), or a matrix."


class KnownCommand(KnownOptions, total=False):
    """The options of `flacheck known`."""

    package: Annotated[str, flags.argument("PACKAGE[==V]", _PACKAGE)]
    format: Annotated[str, flags.page_format("table|json|markdown|html")]
    output: flags.Output


@common.command(
    KnownCommand,
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
        0: "published results exist",
        2: "nothing is published about it; the nearest version is named",
    },
)
def known(call: common.Call[KnownCommand]) -> int:
    """Show published results: failing kernels, good pairs and pins."""
    from flacheck.reports import known_results as known_report

    call.show(known_report.report(flacheck.known(**call.arguments(flacheck.known))))
    return Exit.OK
