"""flacheck runs: the stored runs, and their removal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import common, flags
from flacheck.cli.flags import option

app = typer.Typer(help="List or remove stored runs.")


@app.callback(invoke_without_command=True)
def list_(
    context: typer.Context,
    store: flags.StoreDir = Path(".flacheck"),
    format: flags.ShortFormat = "table",
) -> None:
    """List or remove stored runs."""
    if context.invoked_subcommand is None:
        _list(store, format)


@common.command
def _list(store: Path, format: str) -> int:
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    common.show(format, housekeeping.runs_report(flacheck.describe_runs(store=store)))
    return Exit.OK


@app.command("rm")
@common.command
def remove(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN…", help="Ids, unique prefixes, or last.")
    ],
    store: flags.StoreDir = Path(".flacheck"),
    dry_run: bool = option(False, "--dry-run", help="List what would be removed; remove nothing."),
    format: flags.ShortFormat = "table",
) -> int:
    """Remove runs with their questions, and the records that no other run contains."""
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    listing = flacheck.remove_runs(runs, store=store, dry_run=dry_run)
    common.show(format, housekeeping.runs_report(listing))
    return Exit.OK
