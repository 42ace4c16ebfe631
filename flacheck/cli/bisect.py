"""flacheck bisect: the releases between which a cell's verdict or signature changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common
from flacheck.errors import Exit, UsageError

if TYPE_CHECKING:
    from flacheck.bisect.history import Find


_TRITON = "Releases to look at. With selection flags or a file, a single version selects the failing cell."


@common.command
def bisect(
    cell: common.Cell = None,
    find: Annotated[
        str,
        typer.Option(
            metavar="fail|pass|change", help="What broke it, what mended it, or the whole history."
        ),
    ] = "change",
    kernel: common.Kernel = [],
    target: common.Target = [],
    dtype: common.Dtype = [],
    num_warps: common.NumWarps = [],
    num_stages: common.NumStages = [],
    triton: Annotated[list[str], common.option(metavar="X", help=_TRITON)] = [],
    jobs: common.Jobs = 0,
    timeout: common.Timeout = "auto",
    memory: common.Memory = 8192,
    fresh: common.Fresh = False,
    trust: common.Trust = False,
    store: common.StoreDir = Path(".flacheck"),
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="table or json.")
    ] = "table",
    output: common.Output = None,
) -> int:
    """Find the releases between which CELL's verdict or signature changes."""
    from flacheck import reports
    from flacheck.bisect.sitting import Bisecting, releases
    from flacheck.cli.progress import watch
    from flacheck.engine.session import Session
    from flacheck.inputs import cell as cells
    from flacheck.model import Purpose
    from flacheck.reports import bisect as bisect_report
    from flacheck.store import Store
    from flacheck.toolchains import torch_pins

    reports.check(format, reports.TABLE_OR_JSON)
    wanted, seconds = _find(find), common.seconds(timeout)
    selection = common.selection(kernel, target, dtype, num_warps, num_stages, triton)
    with Store.open(store, create=not cells.needs_store(cell)) as opened:
        chosen = cells.choose(
            cell,
            selection,
            opened,
            lambda plan: Session(
                replace(plan, purpose=Purpose.BISECT), opened, seconds, jobs, memory
            ).records(),
            trust,
        )
        there = releases(chosen.cell, triton, chose=not cells.is_key(cell))
        for warning in (*chosen.warnings, *there.warnings):
            common.say(warning)
        sitting = Bisecting(chosen, there.choices, wanted, opened, seconds, jobs, memory, fresh)
        try:
            with watch(len(sitting.choices)) as seen:
                for record in sitting.records():
                    seen(record)
        except KeyboardInterrupt:
            return common.interrupted()
    found = sitting.found()
    common.show(format, bisect_report.report(found, list(torch_pins.pins())), output)
    return Exit.OK if found.changes else Exit.INCOMPLETE


def _find(word: str) -> Find:
    from flacheck.bisect.history import Find

    if word not in [find.value for find in Find]:
        raise UsageError(f"--find {word}: expected fail, pass or change")
    return Find(word)
