"""flacheck cache: list and remove the cache's content."""

from typing import Annotated

import flacheck
from flacheck import Exit
from flacheck.api.options.declaration import Option
from flacheck.cli import commands, common, flags

_KINDS = "toolchains, packages, captures, sources, headers, links, index. Default: all."
_OLDER = Option("--older TIME", "Unused for that long: 30d, 12h.", default="30d")


class CleanCache(flags.ShortFormat, total=False):
    """The options of `flacheck cache clean`."""

    kinds: Annotated[list[str], flags.argument("[KIND]", _KINDS, None, kind=list[str])]
    dry_run: flags.DryRun


class PruneCache(flags.ShortFormat, total=False):
    """The options of `flacheck cache prune`."""

    older: Annotated[str, _OLDER]
    dry_run: flags.DryRun


@common.command(
    flags.ShortFormat,
    examples=[
        ("What takes space?", "flacheck cache list"),
        ("The same for a script", "flacheck cache list --format json"),
    ],
    exits={0: "always"},
)
def list_(call: common.Call[flags.ShortFormat]) -> int:
    """List what is in the cache with its size and its last use."""
    from flacheck.reports import housekeeping

    call.show(housekeeping.cache_report(flacheck.list_cache()))
    return Exit.OK


@common.command(
    CleanCache,
    examples=[
        ("All captures, to record packages anew", "flacheck cache clean captures"),
        ("What would be removed?", "flacheck cache clean --dry-run"),
    ],
    exits={0: "everything that no other process uses is removed"},
)
def clean(call: common.Call[CleanCache]) -> int:
    """Remove everything of a kind; stored results stay."""
    from flacheck.reports import housekeeping

    listing = flacheck.clean_cache(**call.arguments(flacheck.clean_cache))
    call.show(housekeeping.cache_report(listing))
    return Exit.OK


@common.command(
    PruneCache,
    examples=[
        ("What was not used for a month", "flacheck cache prune --older 30d"),
        ("Only show it", "flacheck cache prune --older 30d --dry-run"),
    ],
    exits={0: "every older entry that is not in use is removed"},
)
def prune(call: common.Call[PruneCache]) -> int:
    """Remove what no command used for some time; stored results stay."""
    from flacheck.reports import housekeeping

    listing = flacheck.prune_cache(
        **call.arguments(flacheck.prune_cache, older=call.options["older"])
    )
    call.show(housekeeping.cache_report(listing))
    return Exit.OK


app = commands.group_of(
    "Show or remove what flacheck installed and captured.",
    {"list": list_, "clean": clean, "prune": prune},
    "list",
)
