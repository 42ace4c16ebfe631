"""`flacheck.bisect`: the releases between which a cell's result changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flacheck.api.arguments import (
    cell_of,
    run_options,
    selection_of,
)
from flacheck.api.options.commands import BisectOptions
from flacheck.api.options.declaration import takes
from flacheck.capabilities.bisect.bisecting import bisect_cell, releases
from flacheck.capabilities.bisect.history import Bisection, Find
from flacheck.errors import UsageError
from flacheck.model import Purpose
from flacheck.pipeline import resolved_cell as cells
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.store import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(BisectOptions)
def bisect(
    cell: str | None = None,
    *,
    on_event: OnEvent | None = None,
    **options: Unpack[BisectOptions],
) -> Bisection:
    """Find the releases between which a cell's verdict or signature changes.

    Without `every` few releases are compiled, and a change inside a range of releases whose ends
    agree may be missed.

    Args:
        cell: A key or its first 8 characters, `FILE.jsonl:LINE`, or a matrix; None searches the
            store for the one failing signature that the selection leaves.
        **options: The options of `flacheck bisect`.
        on_event: Receives each event while the cell compiles.

    Raises:
        UsageError: If no cell or several match, or fewer than two releases are left.
    """
    find = options["find"]
    if find not in [each.value for each in Find]:
        raise UsageError(f"--find {find}: expected fail, pass or change")
    handle = on_event or ignore
    run, selection = run_options(options), selection_of(options)
    about = cell_of(cell, options, "bisect")
    with Store.open(options["store"], create=not cells.needs_store(about)) as open_store:
        found_cell = cells.resolve_cell(
            about, selection, open_store, Purpose.BISECT, options["trust"], run
        )
        there = releases(found_cell.cell, selection.toolchains, chose=not cells.is_key(about))
        for warning in (*found_cell.warnings, *there.warnings):
            handle(Progress(warning))
        events = bisect_cell(
            found_cell, there.choices, Find(find), open_store, run, options["every"]
        )
        return drain(events, on_event)
