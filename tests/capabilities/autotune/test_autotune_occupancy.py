"""Occupancy compared with the figures of the CUDA toolkit's own header."""

from __future__ import annotations

import pytest

from flacheck.capabilities.autotune.occupancy import occupancy, thread_registers
from flacheck.tables import targets

# (target, warps a block, registers a thread, bytes of shared memory, blocks) as
# cudaOccMaxActiveBlocksPerMultiprocessor of CUDA 12.8's cuda_occupancy.h computes it, for the limits of
# the programming guide and the largest carve-out.
BY_HEADER = [
    ("sm70", 1, 40, 0, 32),
    ("sm70", 2, 174, 21222, 4),
    ("sm70", 4, 128, 4944, 4),
    ("sm70", 8, 255, 98304, 1),
    ("sm70", 16, 80, 85320, 1),
    ("sm75", 1, 40, 0, 16),
    ("sm75", 2, 174, 3164, 4),
    ("sm75", 4, 128, 2374, 4),
    ("sm75", 8, 255, 65536, 1),
    ("sm75", 16, 98, 12338, 1),
    ("sm80", 1, 40, 0, 32),
    ("sm80", 2, 174, 47931, 3),
    ("sm80", 4, 128, 38194, 4),
    ("sm80", 8, 255, 166912, 1),
    ("sm80", 16, 37, 133022, 1),
    ("sm86", 1, 40, 0, 16),
    ("sm86", 2, 174, 14070, 4),
    ("sm86", 4, 128, 1229, 4),
    ("sm86", 8, 255, 101376, 1),
    ("sm86", 16, 41, 56839, 1),
    ("sm89", 1, 40, 0, 24),
    ("sm89", 2, 174, 27405, 3),
    ("sm89", 4, 128, 2290, 4),
    ("sm89", 8, 255, 101376, 1),
    ("sm89", 16, 60, 11890, 2),
    ("sm90", 1, 40, 0, 32),
    ("sm90", 2, 174, 72226, 3),
    ("sm90", 4, 128, 27822, 4),
    ("sm90", 8, 255, 232448, 1),
    ("sm90", 16, 37, 216755, 1),
    ("sm100", 1, 40, 0, 32),
    ("sm100", 2, 174, 74115, 3),
    ("sm100", 4, 128, 8114, 4),
    ("sm100", 8, 255, 232448, 1),
    ("sm100", 16, 58, 165315, 1),
    ("sm120", 1, 40, 0, 24),
    ("sm120", 2, 174, 41119, 2),
    ("sm120", 4, 128, 19104, 4),
    ("sm120", 8, 255, 101376, 1),
    ("sm120", 16, 37, 75643, 1),
]


@pytest.mark.parametrize(("target", "warps", "registers", "shared", "blocks"), BY_HEADER)
def test_blocks_are_those_of_the_toolkits_header(
    target: str, warps: int, registers: int, shared: int, blocks: int
) -> None:
    """The number of blocks is the header's on every NVIDIA target."""
    residency = occupancy(targets.find(target), warps, registers, shared)
    assert residency is not None
    assert residency.blocks == blocks
    holds = targets.find(target).multiprocessor
    assert holds is not None
    assert residency.fraction == blocks * warps / holds.warps


@pytest.mark.parametrize(
    ("warps", "registers", "shared", "limit"),
    [
        (1, 32, 0, "blocks"),
        (4, 32, 0, "warps"),
        (4, 255, 0, "registers"),
        (4, 32, 100_000, "shared memory"),
        (4, 32, 300_000, "shared memory"),
    ],
)
def test_the_limit_is_what_keeps_more_blocks_out(
    warps: int, registers: int, shared: int, limit: str
) -> None:
    """The limit names the resource that excludes another block."""
    residency = occupancy(targets.find("sm90"), warps, registers, shared)
    assert residency is not None
    assert residency.limit == limit
    assert (residency.blocks == 0) == (shared > 232_448)


def test_nothing_is_said_without_figures() -> None:
    """AMD GPUs and compiles without a register count have no occupancy."""
    assert occupancy(targets.find("gfx942"), 4, 64, 0) is None
    assert occupancy(targets.find("sm90"), 4, None, 0) is None


@pytest.mark.parametrize(("warps", "most"), [(4, 255), (8, 255), (16, 128), (32, 64)])
def test_a_blocks_threads_share_the_registers(warps: int, most: int) -> None:
    """Threads share 65,536 registers in units of eight, at most 255 each."""
    assert thread_registers(targets.find("sm90"), warps) == most
