"""flacheck runs: the stored runs, and their removal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import commands, common, flags
from flacheck.cli.flags import option

_STORE = Path(".flacheck")
_DRY_RUN = "List what would be removed; remove nothing."
_RUNS = "Ids, unique prefixes, or last."

app = typer.Typer(
    help="List or remove stored runs.",
    cls=commands.HelpGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def _default(context: typer.Context) -> None:
    """List or remove stored runs."""
    if context.invoked_subcommand is None:
        list_(store=_STORE, format="table")


@common.command(
    examples=[
        ("Which runs are stored?", "flacheck runs list"),
        ("Of another store, for a script", "flacheck runs list --store ci --format json"),
    ],
    exits={0: "always, where there is a store"},
)
def list_(store: flags.StoreDir = _STORE, format: flags.ShortFormat = "table") -> int:
    """List the stored runs with their subjects, records and states."""
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    common.show(format, housekeeping.runs_report(flacheck.describe_runs(store=store)))
    return Exit.OK


@common.command(
    examples=[
        ("The last scan", "flacheck runs rm last"),
        ("What would be removed?", "flacheck runs rm 20261120-191224 --dry-run"),
    ],
    exits={0: "every named run is removed"},
)
def remove(
    runs: Annotated[list[str], flags.argument(metavar="RUN", help=_RUNS)],
    store: flags.StoreDir = _STORE,
    dry_run: Annotated[bool, option("--dry-run", panel=flags.HOW, help=_DRY_RUN)] = False,
    format: flags.ShortFormat = "table",
) -> int:
    """Remove runs with their questions, and the records that no other run contains."""
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    listing = flacheck.remove_runs(runs, store=store, dry_run=dry_run)
    common.show(format, housekeeping.runs_report(listing))
    return Exit.OK


commands.add(app, "list", list_)
commands.add(app, "rm", remove)
