"""Cells that a scan would compile, a line each."""

from collections.abc import Iterable, Iterator

from flacheck.analysis.order import parameters, settings
from flacheck.model import Cell


def lines(cells: Iterable[Cell]) -> Iterator[str]:
    """Yield a line for each cell, in the order in which they would be compiled."""
    for cell in cells:
        options = settings(cell.options)
        shape = parameters(cell) or settings(cell.shape)
        words = (cell.key[:12], cell.toolchain, cell.target, cell.stage, cell.kernel.name)
        yield "  ".join((*words, cell.dtype or "-", shape, options)).rstrip() + "\n"
