"""flacheck report: render or merge stored runs."""

from pathlib import Path
from typing import Annotated

import typer

from flacheck.cli import common
from flacheck.cli.common import option
from flacheck.config import settings
from flacheck.errors import Exit

_RUNS = "Ids or unique prefixes. Default: the last run."


@common.command
def report(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN…]", help=_RUNS)] = None,
    store: common.StoreDir = Path(".flacheck"),
    merge: list[Path] = option([], metavar="DIR", help="Copy the runs of another store first."),
    list_: bool = option(False, "--list", help="List the stored runs instead."),
    format: common.Format = "table",
    output: common.Output = None,
) -> int:
    """Render stored runs; several become one report."""
    from flacheck import reports
    from flacheck.reports import scan
    from flacheck.reports.document import listing
    from flacheck.scan import session
    from flacheck.store import Store, questions

    reports.check(format)
    with Store.open(store, create=False) as opened:
        # First, so that runs just merged can be named.
        for other in merge:
            with Store.open(other, create=False) as theirs:
                common.say(f"{opened.merge(theirs)} new records from {other}")
        if merge:
            for question, toolchain, target in questions.unfinished_shards(opened):
                common.say(
                    f"{question} on {toolchain}, {target}: these runs ask different cells, so they "
                    "do not make a whole; scan all shards with one --captured FILE"
                )
        if list_:
            rows = [
                {"run": run.id, "started": run.started[:19], "matrix": run.matrix or "-"}
                for run in opened.runs()
            ]
            # Without headings: the first word of a line is a run's id, for a script to take.
            common.show("table", listing(rows, headed=False), output)
            return Exit.OK
        view = session.view(opened, runs or ["last"], settings.waivers(Path.cwd()))
        common.show(format, scan.report(view), output)
    return Exit.OK
