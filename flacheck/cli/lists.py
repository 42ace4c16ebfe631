"""flacheck list: the kernels, matrices, targets, rules and advisories there are."""

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import flacheck
from flacheck import Exit, UsageError
from flacheck.cli import common, flags

Rows = list[dict[str, Any]]
_SCHEMA = "run, gate, diff or another one. Default: list their names."
# The headings of numbers, with their units.
_UNITS = {
    "kernels": {"configs": "configurations"},
    "targets": {"shared": "shared memory (bytes a block)"},
}
_WHAT = ("kernels", "matrices", "targets", "rules", "advisories")


class ListCommand(flags.ShortFormat, total=False):
    """The options of `flacheck list`."""

    what: Annotated[str, flags.argument("|".join(_WHAT), "The kind of thing to list.")]


@common.command(
    ListCommand,
    examples=[
        ("The GPUs, with their limits", "flacheck list targets"),
        ("Every failure code, for a script", "flacheck list rules --format json"),
    ],
    exits={
        0: "always",
    },
)
def show(call: common.Call[ListCommand]) -> int:
    """List kernels, matrices, targets, rules or advisories."""
    from flacheck.reports.document import Report, listing

    what = call.options["what"]
    if what not in _WHAT:
        raise UsageError(f"cannot list {what!r}: there are {', '.join(_WHAT)}")
    read: Callable[[], Rows] = getattr(flacheck, f"list_{what}")
    rows = read()
    report = listing(rows)
    if what in _UNITS:
        # JSON keeps the names of its fields.
        report = Report(listing(_with_units(rows, _UNITS[what])).parts, rows)
    if what == "advisories":
        # The table is short; JSON holds each advisory in full.
        report = Report(listing(_short(rows)).parts, rows)
    call.show(report)
    return Exit.OK


def _with_units(rows: Rows, units: dict[str, str]) -> Rows:
    """Return the rows with headings that name their units."""
    return [{units.get(name, name): value for name, value in row.items()} for row in rows]


def _short(advisories: Rows) -> Rows:
    """Return a line for each advisory; `explain`, gate and scan print the whole."""
    return [
        {
            "advisory": each["id"],
            "triton": each["triton"],
            "targets": " ".join(each["targets"]),
            "about": ", ".join(each["packages"] or each["kernels"]),
            "effect": each["effect"],
            "since": each["reported"],
        }
        for each in advisories
    ]


class SchemaCommand(TypedDict, total=False):
    """The options of `flacheck schema`."""

    name: Annotated[str | None, flags.argument("NAME", _SCHEMA, None, complete="schemas")]
    output: flags.Output


@common.command(
    SchemaCommand,
    examples=[
        ("The names of all schemas", "flacheck schema"),
        ("The schema of `scan --format json`", "flacheck schema run"),
    ],
    exits={
        0: "always",
    },
)
def schema(call: common.Call[SchemaCommand]) -> int:
    """Print the JSON Schema of an output."""
    from flacheck.reports.document import Report, listing

    name, output = call.options["name"], call.options["output"]
    if name is None:
        rows = [{"schema": each} for each in flacheck.list_schemas()]
        common.show("table", listing(rows, has_header=False), output)
    else:
        common.show("json", Report((), flacheck.schema(name)), output)
    return Exit.OK
