"""flacheck list: the kernels, matrices, targets, rules and advisories there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

import flacheck
from flacheck import Exit, UsageError
from flacheck.cli import common, flags

Rows = list[dict[str, Any]]
_SCHEMA = "run, gate, diff or another one. Default: list their names."
_WHAT = ("kernels", "matrices", "targets", "rules", "advisories")


@common.command
def show(
    what: Annotated[str, typer.Argument(metavar="|".join(_WHAT))],
    format: flags.ShortFormat = "table",
) -> int:
    """List the kernels, matrices, targets, rules or advisories there are."""
    from flacheck import reports
    from flacheck.reports.document import Report, listing

    if what not in _WHAT:
        raise UsageError(f"cannot list {what!r}: there are {', '.join(_WHAT)}")
    reports.check(format, reports.TABLE_OR_JSON)
    read: Callable[[], Rows] = getattr(flacheck, f"list_{what}")
    rows = read()
    report = listing(rows)
    if what == "advisories":
        # The table is short; JSON holds each advisory in full.
        report = Report(listing(_short(rows)).parts, rows)
    common.show(format, report)
    return Exit.OK


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


@common.command
def schema(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help=_SCHEMA)] = None,
    output: flags.Output = None,
) -> int:
    """Print the JSON Schema of an output."""
    from flacheck.reports.document import Report, listing

    if name is None:
        rows = [{"schema": each} for each in flacheck.list_schemas()]
        common.show("table", listing(rows, has_header=False), output)
    else:
        common.show("json", Report((), flacheck.schema(name)), output)
    return Exit.OK
