"""flacheck cache: what takes space in the cache, and its removal."""

from __future__ import annotations

from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import common, flags
from flacheck.cli.flags import option

_KINDS = "toolchains, packages, captures, sources, headers, links, index. Default: all."
app = typer.Typer(help="Show or remove what flacheck installed and captured.")
DryRun = Annotated[bool, option("--dry-run", help="List what would be removed; remove nothing.")]


@app.callback(invoke_without_command=True)
def list_(context: typer.Context, format: flags.ShortFormat = "table") -> None:
    """Show or remove what flacheck installed and captured."""
    if context.invoked_subcommand is None:
        _list(format)


@common.command
def _list(format: str) -> int:
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    common.show(format, housekeeping.cache_report(flacheck.list_cache()))
    return Exit.OK


@app.command("clean")
@common.command
def clean(
    kinds: Annotated[list[str] | None, typer.Argument(metavar="[KIND…]", help=_KINDS)] = None,
    dry_run: DryRun = False,
    format: flags.ShortFormat = "table",
) -> int:
    """Remove everything of a kind; stored results stay."""
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    listing = flacheck.clean_cache(kinds or [], dry_run=dry_run)
    common.show(format, housekeeping.cache_report(listing))
    return Exit.OK


@app.command("prune")
@common.command
def prune(
    older: str = option(..., "--older", metavar="TIME", help="Unused for that long: 30d, 12h."),
    dry_run: DryRun = False,
    format: flags.ShortFormat = "table",
) -> int:
    """Remove what no command used for some time; stored results stay."""
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    listing = flacheck.prune_cache(older, dry_run=dry_run)
    common.show(format, housekeeping.cache_report(listing))
    return Exit.OK
