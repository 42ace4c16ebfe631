"""Smaller blocks: extents that must be equal are made smaller together, the smallest that a dot
allows first.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Iterable, Iterator

from flacheck.repro.kernel import addresses
from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.inference import walked
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.types import Extent, Tensor

EXTENTS = (16, 32, 64, 128, 256, 512)


class Dimensions:
    """All extents at once, then all of one value, then each group by itself."""

    name = "dimensions"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        if (yield smallest(best)):
            return
        for together in (True, False):
            at = 0
            while at < len(groups := list(_groups(best, together))):
                for candidate in _smaller(best, groups[at]):
                    if (yield candidate):
                        best = candidate
                        break
                at += 1


def _groups(specimen: Specimen, together: bool) -> Iterator[list[ast.AST]]:
    """Literals that change together: those of one value, or those of one group of extents; large
    values first.
    """
    extents = walked(specimen).extents
    keyed: dict[object, list[ast.AST]] = {}
    for node, extent in extents.items():
        if extent > 1:
            keyed.setdefault(int(extent) if together else id(extent.group()), []).append(node)
    yield from sorted(keyed.values(), key=lambda nodes: -_value(nodes[0]))


def _value(node: ast.AST) -> int:
    assert isinstance(node, ast.Constant) and isinstance(node.value, int)
    return node.value


def _smaller(specimen: Specimen, nodes: Iterable[ast.AST]) -> Iterator[Specimen]:
    nodes = list(nodes)
    for extent in (size for size in EXTENTS if size < _value(nodes[0])):
        yield _resized(specimen, nodes, extent)


def smallest(specimen: Specimen) -> Specimen:
    """Every extent the smallest that a dot allows, unless it is smaller already."""
    nodes = [
        node for group in _groups(specimen, True) for node in group if _value(node) > EXTENTS[0]
    ]
    return _resized(specimen, nodes, EXTENTS[0])


def _resized(specimen: Specimen, nodes: Iterable[ast.AST], extent: int) -> Specimen:
    changes: dict[int, ast.AST] = {id(node): ast.Constant(extent) for node in nodes}
    with edited(specimen) as kernel:
        kernel.body = copy.deepcopy(specimen.function.body, changes)
    return restrided(kernel.specimen)


def restrided(specimen: Specimen) -> Specimen:
    """The specimen with the strides of plain addresses as its blocks' extents make them."""
    walk = walked(specimen)
    changes: dict[int, ast.AST] = {}
    for node, kind in walk.types.items():
        if (
            isinstance(node, ast.BinOp)
            and isinstance(kind, Tensor)
            and kind.pointer
            and addresses.is_plain(node)
        ):
            pointer = next(
                n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in specimen.args
            )
            new = addresses.address(pointer, kind.shape)
            if ast.dump(new) != ast.dump(node):
                changes[id(node)] = new
    if not changes:
        return specimen
    with edited(specimen) as kernel:
        kernel.body = copy.deepcopy(specimen.function.body, changes)
    return kernel.specimen


__all__ = ["Dimensions", "Extent", "restrided"]
