"""flacheck cache: what takes space in the cache, and its removal."""

from __future__ import annotations

from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import commands, common, flags
from flacheck.cli.flags import option

_KINDS = "toolchains, packages, captures, sources, headers, links, index. Default: all."
_DRY_RUN = "List what would be removed; remove nothing."
DryRun = Annotated[bool, option("--dry-run", panel=flags.HOW, help=_DRY_RUN)]
_OLDER = option("--older", panel=flags.WHAT, metavar="TIME", help="Unused for that long: 30d, 12h.")

app = typer.Typer(
    help="Show or remove what flacheck installed and captured.",
    cls=commands.HelpGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def _default(context: typer.Context) -> None:
    """Show or remove what flacheck installed and captured."""
    if context.invoked_subcommand is None:
        list_(format="table")


@common.command(
    examples=[
        ("What takes space?", "flacheck cache list"),
        ("The same for a script", "flacheck cache list --format json"),
    ],
    exits={0: "always"},
)
def list_(format: flags.ShortFormat = "table") -> int:
    """List what is in the cache with its size and its last use."""
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    common.show(format, housekeeping.cache_report(flacheck.list_cache()))
    return Exit.OK


@common.command(
    examples=[
        ("All captures, to record packages anew", "flacheck cache clean captures"),
        ("What would be removed?", "flacheck cache clean --dry-run"),
    ],
    exits={0: "everything that no other process uses is removed"},
)
def clean(
    kinds: Annotated[list[str] | None, flags.argument(metavar="[KIND]", help=_KINDS)] = None,
    dry_run: DryRun = False,
    format: flags.ShortFormat = "table",
) -> int:
    """Remove everything of a kind; stored results stay."""
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    listing = flacheck.clean_cache(kinds or [], dry_run=dry_run)
    common.show(format, housekeeping.cache_report(listing))
    return Exit.OK


@common.command(
    examples=[
        ("What was not used for a month", "flacheck cache prune --older 30d"),
        ("Only show it", "flacheck cache prune --older 30d --dry-run"),
    ],
    exits={0: "everything that old and not in use is removed"},
)
def prune(
    older: Annotated[str, _OLDER] = "30d",
    dry_run: DryRun = False,
    format: flags.ShortFormat = "table",
) -> int:
    """Remove what no command used for some time; stored results stay."""
    from flacheck.reports import TABLE_OR_JSON, check, housekeeping

    check(format, TABLE_OR_JSON)
    listing = flacheck.prune_cache(older, dry_run=dry_run)
    common.show(format, housekeeping.cache_report(listing))
    return Exit.OK


commands.add(app, "list", list_)
commands.add(app, "clean", clean)
commands.add(app, "prune", prune)
