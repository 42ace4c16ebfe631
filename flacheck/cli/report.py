"""flacheck report: render or merge stored runs."""

from pathlib import Path
from typing import Annotated

import flacheck
from flacheck import Exit
from flacheck.api.options.commands import ReportOptions
from flacheck.api.options.declaration import OUTPUT, Option, switch
from flacheck.cli import common, flags
from flacheck.cli.progress import follow

_RUNS = "Ids or unique prefixes. Default: the last run."
_MERGE = Option("--merge DIR", "Copy the runs of another store first.", default=(), kind=list[Path])


class ReportCommand(ReportOptions, flags.FullReport, total=False):
    """The options of `flacheck report`."""

    runs: Annotated[list[str], flags.argument("RUN", _RUNS, None, kind=list[str], complete="runs")]
    merge: Annotated[list[Path], _MERGE]
    list_: Annotated[bool, switch("--list", "List the stored runs instead.", OUTPUT)]


@common.command(
    ReportCommand,
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
def report(call: common.Call[ReportCommand]) -> int:
    """Render stored runs; several become one report.

    --matrix, --package and --op choose the last scan that was about them; about a package without a
    stored scan, published results are shown.
    """
    from flacheck.reports import scan
    from flacheck.reports.document import listing

    formats = call.check_output()
    options = call.options
    # First, so that runs of a merged store can be named.
    if options["merge"]:
        with follow(resumable=False) as on_event:
            flacheck.merge(options["merge"], store=options["store"], on_event=on_event)
    if options["list_"]:
        rows = [
            {"run": run.id, "started": run.started[:19], "matrix": run.matrix or "-"}
            for run in flacheck.list_runs(store=options["store"])
        ]
        # Without headings: the first word of a line is a run's id, for a script to take.
        common.show("table", listing(rows, has_header=False), options["output"])
        return Exit.OK
    run = flacheck.report(**call.arguments(flacheck.report))
    call.show_all(lambda: scan.report(run.view), formats)
    return Exit.OK
