"""Smaller blocks: extents that must be equal are made smaller together, the smallest that a dot
allows first.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Iterator

from flacheck.repro.kernel import plain_addresses
from flacheck.repro.kernel.block_types import Tensor
from flacheck.repro.kernel.language_calls import SMALLEST_DOT
from flacheck.repro.kernel.rewriting import replaced
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax_trees import names_in
from flacheck.repro.kernel.type_inference import inferred, walked
from flacheck.repro.passes.search import first_taken

# An extent is a power of two: no release takes another number.
EXTENTS = (SMALLEST_DOT, 32, 64, 128, 256, 512)


def dimensions(best: Specimen) -> Generator[Specimen, bool, None]:
    """All extents at once, then all of one value, then each group by itself."""
    if (yield smallest(best)):
        return
    for together in (True, False):
        position = 0
        while position < len(groups := _groups(best, together)):
            best = (yield from first_taken(_smaller(best, groups[position]))) or best
            position += 1


def _groups(specimen: Specimen, together: bool) -> list[list[ast.AST]]:
    """Literals that change together: those of one value, or those of one group of extents; large
    values first.
    """
    groups: dict[object, list[ast.AST]] = {}
    for node, extent in walked(specimen).extents.items():
        if extent > 1:
            key = int(extent) if together else id(extent.group())
            groups.setdefault(key, []).append(node)
    return sorted(groups.values(), key=lambda nodes: -_value(nodes[0]))


def _value(node: ast.AST) -> int:
    assert isinstance(node, ast.Constant) and isinstance(node.value, int)
    return node.value


def _smaller(specimen: Specimen, nodes: list[ast.AST]) -> Iterator[Specimen]:
    for extent in EXTENTS:
        if extent < _value(nodes[0]):
            yield _resized(specimen, nodes, extent)


def smallest(specimen: Specimen) -> Specimen:
    """Every extent the smallest that a dot allows, unless it is smaller already."""
    nodes = [node for group in _groups(specimen, True) for node in group]
    return _resized(specimen, [n for n in nodes if _value(n) > SMALLEST_DOT], SMALLEST_DOT)


def _resized(specimen: Specimen, nodes: Iterable[ast.AST], extent: int) -> Specimen:
    return restrided(replaced(specimen, {node: ast.Constant(extent) for node in nodes}))


def restrided(specimen: Specimen) -> Specimen:
    """The specimen with the strides of plain addresses as its blocks' extents make them."""
    addresses: dict[ast.AST, ast.AST] = {}
    for node, kind in inferred(specimen).items():
        if not isinstance(node, ast.BinOp) or not isinstance(kind, Tensor) or not kind.pointer:
            continue
        if plain_addresses.is_plain(node):
            pointer = next(name.id for name in names_in(node) if name.id in specimen.args)
            address = plain_addresses.address(pointer, kind.shape)
            if ast.dump(address) != ast.dump(node):
                addresses[node] = address
    if not addresses:
        return specimen
    return replaced(specimen, addresses)
