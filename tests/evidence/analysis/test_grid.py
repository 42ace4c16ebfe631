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
    """Each square knows how many compile of how many asked, the codes, and what was skipped."""
    cells = [
        record(),
        failure(options={"num_warps": 8, "num_stages": 2}),
        skipped(options={"num_warps": 16, "num_stages": 2}),
        unknown(options={"num_warps": 1, "num_stages": 2}),
    ]
    made = grid([*cells, record(toolchain="triton==3.10.0", target="sm100")])
    assert made.toolchains == ("triton==3.2.0", "triton==3.10.0")
    assert list(made.targets) == ["sm90", "sm100"]
    square = made.targets["sm90"][PACKAGE, DELTA]["triton==3.2.0"]
    assert (square.compiles, square.tested_count, square.unknown, square.blocking) == (
        1,
        3,
        1,
        True,
    )
    assert dict(square.codes) == {"FC302": 1}
    assert made.tested_toolchains("sm90") == ("triton==3.2.0",)
    assert made.targets["sm100"][PACKAGE, DELTA]["triton==3.10.0"].perfect
