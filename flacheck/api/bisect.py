"""`flacheck.bisect`: the releases between which a cell's verdict or signature changes."""

from __future__ import annotations

from flacheck.api.arguments import (
    STORE,
    PathLike,
    Several,
    Texts,
    cell_of,
    run_options,
    selection_of,
)
from flacheck.capabilities.bisect.bisecting import bisect_cell, releases
from flacheck.capabilities.bisect.history import Bisection, Find
from flacheck.errors import UsageError
from flacheck.model import Purpose
from flacheck.pipeline import resolved_cell as cells
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.store import Store


def bisect(
    cell: str | None = None,
    *,
    find: str = "change",
    every: bool = False,
    matrix: PathLike | None = None,
    package: Texts | PathLike | None = None,
    kernel: Several = (),
    op: Several = (),
    target: Several = (),
    dtype: Several = (),
    num_warps: Several = (),
    num_stages: Several = (),
    toolchain: Texts = (),
    triton: Texts = (),
    torch: Texts = (),
    jobs: int = 0,
    executor: str = "local",
    timeout: str | float = "auto",
    memory: int = 8192,
    fresh: bool = False,
    trust: bool = False,
    store: PathLike = STORE,
    on_event: OnEvent | None = None,
) -> Bisection:
    """Find the releases between which a cell's verdict or signature changes.

    Args:
        cell: A key or its first 8 characters, `FILE.jsonl:LINE`, or a matrix; None searches the
            store for the one failing signature that the selection leaves.
        find: `fail` for what broke the cell, `pass` for what mended it, `change` for all changes.
        every: Compile under every release; without it, a search compiles few of them, and a change
            inside a range of releases whose ends agree may be missed.
        matrix, package: Where the cell is from, instead of `cell`.
        kernel, op, target, dtype, num_warps, num_stages: The selection, one value or several.
        toolchain, triton, torch: The releases to look at; all with a wheel without them.
        jobs, executor, timeout, memory, fresh: How the cell is compiled, as for `scan`.
        trust: Install and import the packages that a launches file or a stored cell names.
        store: The folder of the store.
        on_event: Receives each event while the cell compiles.

    Raises:
        UsageError: If no cell or several match, or fewer than two releases are left.
    """
    if find not in [each.value for each in Find]:
        raise UsageError(f"--find {find}: expected fail, pass or change")
    handle = on_event or ignore
    options = run_options(timeout=timeout, jobs=jobs, executor=executor, memory=memory, fresh=fresh)
    selection = selection_of(
        kernel=kernel,
        op=op,
        target=target,
        dtype=dtype,
        num_warps=num_warps,
        num_stages=num_stages,
        toolchain=toolchain,
        triton=triton,
        torch=torch,
    )
    about = cell_of(cell, matrix, package, trust, "bisect")
    with Store.open(store, create=not cells.needs_store(about)) as open_store:
        found_cell = cells.resolve_cell(
            about, selection, open_store, Purpose.BISECT, trust, options
        )
        there = releases(found_cell.cell, selection.toolchains, chose=not cells.is_key(about))
        for warning in (*found_cell.warnings, *there.warnings):
            handle(Progress(warning))
        events = bisect_cell(found_cell, there.choices, Find(find), open_store, options, every)
        return drain(events, on_event)
