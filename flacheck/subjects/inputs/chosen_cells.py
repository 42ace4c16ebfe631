"""The cells of recorded launches: the usual ones, those of `edges`, or all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from flacheck.model import Cell
from flacheck.subjects.inputs.expand import (
    Resolve,
    Selection,
    Source,
    count_configurations,
    expand,
    expand_edges,
)
from flacheck.subjects.inputs.matrix import Matrix

# The most configurations of a toolchain and target of which all are compiled by default.
MOST_OWN = 1_000


@dataclass(frozen=True)
class RecordedKernels:
    """Recorded launches, as sources of cells.

    `usual_sources` hold one launch of each kernel and dtype, `sources` all of them.
    """

    matrix: Matrix
    usual_sources: Sequence[Source]
    sources: Sequence[Source]


@dataclass(frozen=True)
class ChosenCells:
    """The cells to compile: the usual ones, and those that follow.

    `configs` is `usual`, `edges` or `own`.
    """

    usual: Sequence[Cell]
    others: Sequence[Cell]
    configs: str


def choose_cells(
    kernels: RecordedKernels,
    configs: str | None,
    selection: Selection,
    resolve: Resolve,
    until: str | None = None,
) -> ChosenCells:
    """Return the cells of recorded launches.

    Args:
        kernels: The kernels with their launches.
        configs: `usual`, `edges` or `own`; None for `own` if that is at most MOST_OWN
            configurations on each toolchain and target, else `edges`.
        selection: The user's selection.
        resolve: Resolves the names of toolchains.
        until: The last stage to run.
    """
    matrix = kernels.matrix
    if configs is None:
        count = count_configurations(matrix, kernels.sources, selection, resolve)
        configs = "own" if count <= MOST_OWN else "edges"
    usual = list(
        expand(matrix.with_configs("usual"), kernels.usual_sources, selection, resolve, until)
    )
    more: Sequence[Cell] = ()
    if configs == "own":
        more = list(expand(matrix.with_configs("own"), kernels.sources, selection, resolve, until))
    elif configs == "edges":
        more = list(
            expand_edges(matrix, kernels.usual_sources, kernels.sources, selection, resolve, until)
        )
    usual_keys = {cell.key for cell in usual}
    others = [cell for cell in more if cell.key not in usual_keys]
    return ChosenCells(usual, others, configs)
