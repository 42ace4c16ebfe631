"""How many cells a matrix would be, told before any of them is made."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flacheck.errors import UsageError
from flacheck.inputs.expand import (
    DEFAULT_DTYPES,
    DEFAULT_TARGETS,
    Resolve,
    Selection,
    Source,
    named,
)
from flacheck.inputs.matrix import MOST_CELLS, Matrix

# Axes whose values multiply; those of dtype and shape only where a launch leaves them open.
_FREE = ("stage", "constants", "options", "num_warps", "num_stages")


def check(
    matrix: Matrix, sources: Sequence[Source], selection: Selection, resolve: Resolve
) -> None:
    """Raises UsageError for a matrix of too many cells; what it excludes is counted, too."""
    asked = [source for source in sources if selection.names(source.kernel.name)]
    cells = 0
    for block in matrix.blocks:
        axes = selection.replaces(block.axes)
        targets = len(axes.get("target", DEFAULT_TARGETS))
        free = math.prod(len(axes.get(axis, ("",))) for axis in _FREE)
        globs = axes.get("kernel", ("*",))
        of_block = [s for s in asked if any(named(glob, s.kernel.name) for glob in globs)]
        jobs = sum(_jobs(source, axes) for source in of_block)
        releases = {
            name for spec in axes.get("toolchain", ("installed",)) for name in resolve(spec)
        }
        cells += jobs * free * targets * max(len(releases), 1)
    if cells > MOST_CELLS:
        raise UsageError(
            f"{matrix.file}: asks up to {cells:,} cells, and {MOST_CELLS:,} are the most of one"
            " run; shorten its axes, or select kernels, targets and releases"
        )


def _jobs(source: Source, axes: Mapping[str, Sequence[Any]]) -> int:
    shapes = sum(
        len(source.shapes or ({},)) if item == "own" else 1 for item in axes.get("shape", ("own",))
    )
    dtypes = len(axes.get("dtype", DEFAULT_DTYPES))
    jobs = 0
    for launch in source.launches:
        of_dtypes = dtypes if launch.names_dtype else 1
        jobs += shapes * of_dtypes * max(len(launch.configs), 1)
    return jobs
