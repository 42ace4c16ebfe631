"""flacheck runs: the stored runs, and their removal."""

from typing import Annotated

import flacheck
from flacheck import Exit
from flacheck.api.options.groups import Store
from flacheck.cli import commands, common, flags

_RUNS = "Ids, unique prefixes, or last."


class ListRuns(flags.ShortFormat, total=False):
    """The options of `flacheck runs list`."""

    store: Store


class RemoveRuns(ListRuns, total=False):
    """The options of `flacheck runs rm`."""

    runs: Annotated[list[str], flags.argument("RUN", _RUNS, kind=list[str])]
    dry_run: flags.DryRun


@common.command(
    ListRuns,
    examples=[
        ("Which runs are stored?", "flacheck runs list"),
        ("Of another store, for a script", "flacheck runs list --store ci --format json"),
    ],
    exits={0: "always, where there is a store"},
)
def list_(call: common.Call[ListRuns]) -> int:
    """List the stored runs with their subjects, records and states."""
    from flacheck.reports import housekeeping

    listing = flacheck.describe_runs(store=call.options["store"])
    call.show(housekeeping.runs_report(listing))
    return Exit.OK


@common.command(
    RemoveRuns,
    examples=[
        ("The last scan", "flacheck runs rm last"),
        ("What would be removed?", "flacheck runs rm 20261120-191224 --dry-run"),
    ],
    exits={0: "every named run is removed"},
)
def remove(call: common.Call[RemoveRuns]) -> int:
    """Remove runs with their questions, and the records that no other run contains."""
    from flacheck.reports import housekeeping

    listing = flacheck.remove_runs(**call.arguments(flacheck.remove_runs))
    call.show(housekeeping.runs_report(listing))
    return Exit.OK


app = commands.group_of(
    "List or remove stored runs.",
    {"list": list_, "rm": remove},
    "list",
)
