"""`flacheck.bisect`: the releases or commits between which a cell's result changes."""

from __future__ import annotations

from flacheck.api.arguments import (
    STORE,
    PathLike,
    Several,
    Texts,
    cell_of,
    check_stage,
    one_package,
    run_options,
    selection_of,
)
from flacheck.capabilities.bisect.bisecting import bisect_cell, releases
from flacheck.capabilities.bisect.history import Bisection, Find
from flacheck.capabilities.bisect.over_commits import bisect_commits
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
    commits: str | None = None,
    until: str | None = None,
    matrix: PathLike | None = None,
    package: Texts | PathLike | None = None,
    kernel: Several = (),
    op: Several = (),
    target: Several = (),
    dtype: Several = (),
    num_warps: Several = (),
    num_stages: Several = (),
    define: Texts = (),
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
        commits: `A..B`, commits of the checkout `package`, whose one selected CUDA C++ unit is
            compiled under one toolkit at A and at commits up to B.
        until: The last compiler stage to run at each commit; None runs all.
        matrix, package: Where the cell is from, instead of `cell`.
        kernel, op, target, dtype, num_warps, num_stages: The selection, one value or several.
        define: Macros of a CUDA C++ unit, each `NAME=VALUE`; a stored cell keeps its own.
        toolchain, triton, torch: The releases to look at; all with a wheel without them.
        jobs, executor, timeout, memory, fresh: How the cell is compiled, as for `scan`.
        trust: Install and import the packages that a launches file or a stored cell names.
        store: The folder of the store.
        on_event: Receives each event while the cell compiles.

    Raises:
        UsageError: If no cell or several match, fewer than two releases are left, or the range of
            commits is malformed.
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
        define=define,
    )
    if commits is not None:
        folder = one_package(package, "bisect")
        if cell is not None or matrix is not None or folder is None:
            raise UsageError("--commits takes the checkout in --package DIR, and no cell or matrix")
        check_stage(until)
        with Store.open(store) as open_store:
            over_commits = bisect_commits(
                folder, commits, selection, Find(find), open_store, options, until, every
            )
            return drain(over_commits, on_event)
    if until is not None:
        raise UsageError("--until goes with --commits: releases are compared by whole compiles")
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
