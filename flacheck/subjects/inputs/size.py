"""An upper bound on the number of a matrix's cells, computed before any cell is made."""

from collections.abc import Mapping, Sequence
from typing import Any

from flacheck.errors import UsageError
from flacheck.subjects.inputs.expand import (
    DEFAULT_DTYPES,
    DEFAULT_TARGETS,
    Resolve,
    Selection,
    Source,
    matches_kernel,
)
from flacheck.subjects.inputs.matrix import MOST_CELLS, Matrix
from flacheck.toolchains import DEFAULT_SPEC

# Axes whose values always multiply; those of dtype and shape do so only for some launches.
_FREE = ("stage", "constants", "options", "num_warps", "num_stages")


def check(
    matrix: Matrix, sources: Sequence[Source], selection: Selection, resolve: Resolve
) -> None:
    """Raise UsageError for a matrix of too many cells, those that it excludes included."""
    cells = 0
    for block in matrix.blocks:
        axes = selection.replaces(block.axes)
        jobs = 0
        for source in sources:
            name = source.kernel.name
            if selection.names(name) and matches_kernel(axes.get("kernel", ("*",)), name):
                jobs += _jobs(source, axes)
        jobs *= len(axes.get("target", DEFAULT_TARGETS))
        for axis in _FREE:
            jobs *= len(axes.get(axis, ("",)))
        releases: set[str] = set()
        for spec in axes.get("toolchain", (DEFAULT_SPEC,)):
            releases.update(resolve(spec))
        cells += jobs * max(len(releases), 1)
    if cells > MOST_CELLS:
        raise UsageError(
            f"{matrix.file}: has up to {cells:,} cells, and {MOST_CELLS:,} are the most of one"
            " run; shorten its axes, or select kernels, targets and releases"
        )


def _jobs(source: Source, axes: Mapping[str, Sequence[Any]]) -> int:
    shapes = 0
    for item in axes.get("shape", ("own",)):
        if item == "own":
            shapes += max(len(source.shapes), 1)
        else:
            shapes += 1
    jobs = 0
    for launch in source.launches:
        dtypes = 1
        if launch.names_dtype:
            dtypes = len(axes.get("dtype", DEFAULT_DTYPES))
        jobs += shapes * dtypes * max(len(launch.configs), 1)
    return jobs
