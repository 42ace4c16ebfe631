"""flacheck report: render or merge stored runs."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common, flags
from flacheck.cli.flags import option
from flacheck.config import settings
from flacheck.errors import Exit, UsageError

if TYPE_CHECKING:
    from flacheck.inputs.subject import Subject
    from flacheck.store import Store

_RUNS = "Ids or unique prefixes. Default: the last run."


@common.command
def report(
    context: typer.Context,
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN…]", help=_RUNS)] = None,
    matrix: flags.Matrix = None,
    package: flags.Package = None,
    op: flags.Op = [],
    store: flags.StoreDir = Path(".flacheck"),
    merge: list[Path] = option([], metavar="DIR", help="Copy the runs of another store first."),
    list_: bool = option(False, "--list", help="List the stored runs instead."),
    format: flags.Format = "table",
    output: flags.Output = None,
) -> int:
    """Render stored runs; several become one report. --matrix, --package and --op choose the last
    scan that was about them."""
    from flacheck import reports
    from flacheck.reports import scan
    from flacheck.reports.document import listing
    from flacheck.scan import session
    from flacheck.store import Store

    reports.check(format)
    with Store.open(store, create=False) as opened:
        # First, so that runs just merged can be named.
        if merge:
            _merge(opened, merge)
        if list_:
            rows = [
                {"run": run.id, "started": run.started[:19], "matrix": run.matrix or "-"}
                for run in opened.runs()
            ]
            # Without headings: the first word of a line is a run's id, for a script to take.
            common.show("table", listing(rows, headed=False), output)
            return Exit.OK
        # What a project's scans are about is no wish for one of several reports.
        named = [name for name in ("matrix", "package", "op") if common.is_typed(context, name)]
        if named and runs:
            raise UsageError(f"RUN and --{named[0]} were given: name one of them")
        if named:
            runs = [_last_about(opened, *_typed(context, matrix, package, op))]
        view = session.view(opened, runs or ["last"], settings.waivers(Path.cwd()))
        common.show(format, scan.report(view), output)
    return Exit.OK


def _merge(store: Store, folders: list[Path]) -> None:
    """Take over the runs of other stores, of all or of none."""
    from flacheck.store import Store, questions

    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(Store.open(folder, create=False)) for folder in folders]
        for folder, new in zip(folders, store.merge(*others), strict=True):
            common.say(f"{new} new records from {folder}")
    for question, toolchain, target in questions.unfinished_shards(store):
        common.say(
            f"{question} on {toolchain}, {target}: these runs ask different cells, so they "
            "do not make a whole; scan all shards with one --captured FILE"
        )


def _typed(
    context: typer.Context, matrix: str | None, package: str | None, op: list[str]
) -> tuple[Subject, tuple[str, ...] | None]:
    """What was typed of a matrix, a package and operators; None for no operators."""
    if not common.is_typed(context, "matrix"):
        matrix = None
    if not common.is_typed(context, "package"):
        package = None
    ops = None
    if common.is_typed(context, "op"):
        ops = common.split(op)
    return common.subject(context, matrix, package), ops


def _last_about(store: Store, about: Subject, ops: tuple[str, ...] | None) -> str:
    """The id of the last scan of a matrix or package, or of any, with these operators; None for
    whichever."""
    from flacheck.gate.evidence import RecordFilter
    from flacheck.model import Purpose

    wanted = RecordFilter(about.matrix, about.package)
    anything = about.matrix is None and about.package is None
    for run in reversed(store.runs()):
        if run.question is None or run.purpose is not Purpose.SCAN:
            continue
        same_ops = ops is None or tuple(run.question.selection.get("ops", ())) == ops
        if same_ops and (anything or wanted.is_about(run.question)):
            return run.id
    named = [about.package or about.matrix or "", *(f"--op {each}" for each in ops or ())]
    asked = " ".join(filter(None, named))
    raise UsageError(
        f"{store.path}: no scan was about {asked}; `flacheck report --list` shows what is stored"
    )
