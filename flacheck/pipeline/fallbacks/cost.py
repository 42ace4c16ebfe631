"""An estimate of what a change of settings costs before anything is compiled.

The estimate is a ratio of times, as a logarithm.

A block computes an output tile of m × n (its two largest tile sizes) with W warps and S pipeline
stages. Three factors, each 1 or a small number, are multiplied:

- traffic, 1/m + 1/n: the bytes that a blocked matrix product loads for each operation (Lam,
  Rothberg and Wolf, "The cache performance and optimizations of blocked algorithms", ASPLOS 1991);
  halving one side of a square tile costs 1.5;
- pipeline, 1 + 1/S: with one stage, loads and arithmetic alternate; with S stages, 1/S of the loads
  is exposed (Lam, "Software pipelining", PLDI 1988);
- registers, the accumulators of a thread, a = m·n / (W · warp size): no cost from 16 to 32. Above,
  operands and addresses grow too, and a thread has at most 255 registers (CUDA C++ Programming
  Guide, compute capabilities), so spills are near: the cost is a / 32. Below, a thread has too
  little independent work to hide the latency of its instructions: the cost is the square root of
  16 / a.

The bound of 32 was chosen on an H200 (Triton 3.6, 29 kernels, 372 configurations): there the rank
correlation of the estimate with the times has the median 0.67. On six other kernels (90
configurations) it is 0.61, and the first configuration by the estimate takes at most 1.42 times the
best; a bound of 128 gave 0.10 and 3.95 there.

The estimate ranks changes of one launch. It ignores the kernel's loops and the card's occupancy and
predicts no times.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

# The defaults of Triton.
DEFAULTS = {"num_warps": 4, "num_stages": 3}
# Between these numbers of accumulators a thread costs nothing extra: see the module docstring.
FEWEST, MOST = 16, 32


def estimate(
    tiles: Iterable[int], num_warps: int = 4, num_stages: int = 3, warp_size: int = 32
) -> float:
    """Return the estimated time of a block per unit of its work; only ratios are meaningful."""
    m, n = sorted([*tiles, 1, 1])[:-3:-1]
    accumulators = m * n / (num_warps * warp_size)
    spilling = max(1.0, accumulators / MOST)
    idling = math.sqrt(max(1.0, FEWEST / accumulators))
    traffic = 1 / m + 1 / n
    pipeline = 1 + 1 / max(num_stages, 1)
    return traffic * pipeline * (spilling * idling)


def of_settings(settings: Mapping[str, Any], blocks: Iterable[str], warp_size: int = 32) -> float:
    """Return the estimate for settings (options and constexprs); `blocks` are the tile sizes."""
    tiles = [settings[name] for name in blocks if settings.get(name)]
    options = {name: settings.get(name) or default for name, default in DEFAULTS.items()}
    return estimate(tiles, **options, warp_size=warp_size)


def loss(
    before: Mapping[str, Any], use: Mapping[str, Any], blocks: Iterable[str], warp_size: int = 32
) -> float:
    """Return the estimated loss of `before` changed by `use`: log2 of the ratio of times."""
    names = tuple(blocks)
    time_before = of_settings(before, names, warp_size)
    time_after = of_settings({**before, **use}, names, warp_size)
    return round(math.log2(time_after / time_before), 2)
