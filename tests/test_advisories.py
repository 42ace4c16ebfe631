"""Known miscompiles are told where they apply, and nowhere else."""

from __future__ import annotations

import pytest

from flacheck.tables import advisories

DQKWG = "fla.ops.common.chunk_o:chunk_bwd_kernel_dqkwg"


@pytest.mark.parametrize(
    ("kernel", "triton", "target", "told"),
    [
        (DQKWG, "3.4.0", "sm90", True),
        (DQKWG, "3.7.0", "sm90", True),
        (DQKWG, "3.7.1", "sm90", False),
        (DQKWG, "3.3.1", "sm90", False),
        (DQKWG, "3.5.1", "sm80", False),
        ("retention.chunk_fwd_o", "3.5.1", "sm90", False),
    ],
)
def test_an_advisory_has_a_scope(kernel: str, triton: str, target: str, told: bool) -> None:
    """Release, GPU and kernel must all match."""
    assert bool(advisories.of([kernel], triton, target)) is told
