"""flacheck report: render or merge stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import common, completion, flags
from flacheck.cli.flags import option
from flacheck.cli.progress import follow

_TARGET = "Show published results on these GPUs only."
_RUNS = "Ids or unique prefixes. Default: the last run."


@common.command(
    examples=[
        ("The last run, for an issue or a pull request", "flacheck report --format markdown"),
        (
            "The last run in several formats at once",
            "flacheck report --format html -o report.html --report junit=junit.xml",
        ),
        ("Shards of eight machines as one run", "flacheck report --merge shards/"),
    ],
    exits={
        0: "always, when the runs can be read",
    },
)
def report(
    context: typer.Context,
    runs: Annotated[
        list[str] | None, flags.argument(metavar="RUN", help=_RUNS, complete=completion.runs)
    ] = None,
    matrix: flags.Matrix = None,
    package: flags.Package = [],
    op: flags.Op = [],
    target: list[str] = option(
        [], "--target", "-t", panel=flags.WHAT, selects=True, metavar="GPU", help=_TARGET
    ),
    no_published: flags.NoPublished = False,
    results: flags.Results = None,
    store: flags.StoreDir = Path(".flacheck"),
    merge: list[Path] = option(
        [], panel=flags.WHAT, metavar="DIR", help="Copy the runs of another store first."
    ),
    list_: bool = option(False, "--list", panel=flags.OUTPUT, help="List the stored runs instead."),
    format: flags.Format = "table",
    output: flags.Output = None,
    reports: flags.Reports = [],
) -> int:
    """Render stored runs; several become one report.

    --matrix, --package and --op choose the last scan that was about them; about a package without a
    stored scan, published results are shown.
    """
    from flacheck.reports import scan
    from flacheck.reports.document import listing

    formats = common.check_output(format, output, reports)
    # First, so that runs of a merged store can be named.
    if merge:
        with follow(resumable=False) as on_event:
            flacheck.merge(merge, store=store, on_event=on_event)
    if list_:
        rows = [
            {"run": run.id, "started": run.started[:19], "matrix": run.matrix or "-"}
            for run in flacheck.list_runs(store=store)
        ]
        # Without headings: the first word of a line is a run's id, for a script to take.
        common.show("table", listing(rows, has_header=False), output)
        return Exit.OK
    arguments = common.arguments(context, flacheck.report, runs=runs or [])
    run = flacheck.report(**arguments)
    common.show_all(lambda: scan.report(run.view), format, output, formats)
    return Exit.OK
