"""Kernel × release: the counts behind the matrix."""

from __future__ import annotations

from flacheck.evidence.analysis.grid import grid
from tests.made_records import (
    DELTA,
    PACKAGE,
    failure,
    record,
    skipped,
    unknown,
)


def test_the_grid_counts_kernels_and_releases_per_target() -> None:
    """A square has the number of compiled and tested cells, and the codes."""
    cells = [
        record(),
        failure(options={"num_warps": 8, "num_stages": 2}),
        skipped(options={"num_warps": 16, "num_stages": 2}),
        unknown(options={"num_warps": 1, "num_stages": 2}),
    ]
    table = grid([*cells, record(toolchain="triton==3.10.0", target="sm100")])
    assert table.toolchains == ("triton==3.2.0", "triton==3.10.0")
    assert list(table.targets) == ["sm90", "sm100"]
    square = table.targets["sm90"][PACKAGE, DELTA]["triton==3.2.0"]
    assert (square.compiles, square.tested_count, square.unknown, square.blocking) == (
        1,
        3,
        1,
        True,
    )
    assert dict(square.codes) == {"FC302": 1}
    assert table.tested_toolchains("sm90") == ("triton==3.2.0",)
    assert table.targets["sm100"][PACKAGE, DELTA]["triton==3.10.0"].perfect
