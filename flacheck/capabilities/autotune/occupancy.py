"""The share of a multiprocessor that a compiled configuration fills.

    blocks    = min(most blocks,
                    ⌊most warps / W⌋,
                    ⌊shared memory / (⌈shared + reserved⌉ to shared unit)⌋,
                    ⌊4 · ⌊(registers / 4) / (⌈R · 32⌉ to 256)⌋ / W⌋)
    occupancy = blocks · W / most warps

with W the warps of a block and R its registers a thread: a multiprocessor has four partitions with
a quarter of the registers each, and a warp's registers are handed out in units of 256. Formula and
units are those of `cuda_occupancy.h` in the CUDA toolkit, whose values a test compares; the limits
are those of the CUDA C++ Programming Guide's table of compute capabilities
(`targets.Multiprocessor`). Clusters and tensor memory are left out, and shared memory is assumed
to have its largest carve-out of the L1 cache. AMD GPUs are not covered.
"""

from dataclasses import dataclass

from flacheck.tables.targets import Target

# A warp gets registers in units of 256, which are 8 for each of its 32 threads.
_THREAD_UNIT = 8


@dataclass(frozen=True)
class Occupancy:
    """The occupancy of a multiprocessor.

    `fraction` is the share of its warps that `blocks` of one launch fill; `limit` is the resource
    that runs out first: "blocks", "warps", "shared memory" or "registers".
    """

    fraction: float
    blocks: int
    limit: str


def occupancy(
    target: Target, num_warps: int, registers: int | None, shared: int | None
) -> Occupancy | None:
    """Return the occupancy of a launch; None if a resource or the target's limits are unknown.

    Args:
        target: The GPU.
        num_warps: The number of warps of a block.
        registers: The number of registers of a thread.
        shared: The bytes of shared memory of a block.
    """
    holds = target.multiprocessor
    # The limits of AMD GPUs are in no table.
    if holds is None or registers is None or shared is None:
        return None
    # A warp cannot use registers of another partition.
    warp_registers = _up(max(registers, 1) * target.warp_size, holds.register_unit)
    warps = holds.registers // holds.partitions // warp_registers * holds.partitions
    limits = {
        "blocks": holds.blocks,
        "warps": holds.warps // num_warps,
        "shared memory": holds.shared // _up(shared + holds.shared_reserved, holds.shared_unit),
        "registers": warps // num_warps,
    }
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit] * num_warps / holds.warps, limits[limit], limit)


def thread_registers(target: Target, num_warps: int) -> int:
    """Return the most registers of a thread with which a block fits into the register file."""
    share = target.registers // (num_warps * target.warp_size)
    return min(target.thread_registers, share // _THREAD_UNIT * _THREAD_UNIT)


def _up(value: int, unit: int) -> int:
    # At least one: a block without shared memory on an old card would divide by zero.
    return max(-(-value // unit), 1) * unit
