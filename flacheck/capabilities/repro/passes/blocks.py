"""Plainer and smaller blocks: loads and stores as `pointer + arange`, and their extents."""

import ast
import copy
from collections.abc import Generator, Iterable, Sequence

from flacheck.capabilities.repro.kernel.block_types import BlockPointer, Tensor, pointee
from flacheck.capabilities.repro.kernel.language_calls import SMALLEST_DOT
from flacheck.capabilities.repro.kernel.plain_addresses import address, is_plain
from flacheck.capabilities.repro.kernel.rewriting import (
    drop_unread_parameters,
    pointer_to,
    replace_nodes,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import callee_name, names_in
from flacheck.capabilities.repro.kernel.type_inference import infer_kernel, infer_types
from flacheck.capabilities.repro.passes.search import at_each, first_taken

# An extent is a power of two: no release takes another number.
EXTENTS = (SMALLEST_DOT, 32, 64, 128, 256, 512)


def pointers(best: Specimen) -> Generator[Specimen, bool, None]:
    """Every load and store in the plain form."""
    if not (yield plainly(best, _odd(best))):
        yield from at_each(best, _odd, lambda specimen, node: [plainly(specimen, [node])])


def _odd(specimen: Specimen) -> list[ast.Call]:
    """Loads and stores that are not plain, of which the block is known."""
    types = infer_types(specimen)
    accesses = []
    for node in ast.walk(specimen.function):
        if not isinstance(node, ast.Call) or callee_name(node) not in ("tl.load", "tl.store"):
            continue
        if not node.args or (not node.keywords and len(node.args) <= 2 and is_plain(node.args[0])):
            continue
        kind = types.get(node.args[0])
        if isinstance(kind, BlockPointer) or (isinstance(kind, Tensor) and kind.pointer):
            accesses.append(node)
    return accesses


def plainly(specimen: Specimen, nodes: Sequence[ast.Call]) -> Specimen:
    """The specimen with these accesses in the plain form, each through a parameter of its dtype."""
    types = infer_types(specimen)
    args = dict(specimen.args)
    plain: dict[ast.AST, ast.AST] = {}
    for node in nodes:
        block = pointee(types[node.args[0]])
        # The parameter in an address that is written out.
        named = (n.id for n in names_in(node.args[0]) if n.id in specimen.pointers)
        pointer = next(named, None) or pointer_to(block.dtype, args, specimen)
        values = []
        # A store keeps its value; masks, boundary checks and cache hints go.
        if callee_name(node) == "tl.store":
            values = copy.deepcopy(node.args[1:2])
        plain[node] = ast.Call(node.func, [address(pointer, block.shape), *values], [])
    return drop_unread_parameters(replace_nodes(specimen, plain, args))


def smallest(best: Specimen) -> Generator[Specimen, bool, None]:
    """All extents as small as a dot's may be: one candidate, and where it is taken, all that are
    asked later compile in a fraction of the time."""
    large = [node for node, extent in infer_kernel(best).extents.items() if extent > SMALLEST_DOT]
    if large:
        yield _resized(best, large, SMALLEST_DOT)


def dimensions(best: Specimen) -> Generator[Specimen, bool, None]:
    """All extents at once, then all of one value, then each group by itself."""
    large = [node for node, extent in infer_kernel(best).extents.items() if extent > SMALLEST_DOT]
    if (yield _resized(best, large, SMALLEST_DOT)):
        return
    for together in (True, False):
        position = 0
        while position < len(groups := _groups(best, together)):
            value, nodes = groups[position]
            resized = (_resized(best, nodes, extent) for extent in EXTENTS if extent < value)
            best = (yield from first_taken(resized)) or best
            position += 1


def _groups(specimen: Specimen, together: bool) -> list[tuple[int, list[ast.AST]]]:
    """Literals of one value, or of one group of extents, that change together; large ones first."""
    groups: dict[int, tuple[int, list[ast.AST]]] = {}
    for node, extent in infer_kernel(specimen).extents.items():
        if extent > 1:
            key = int(extent) if together else id(extent.group())
            groups.setdefault(key, (int(extent), []))[1].append(node)
    return sorted(groups.values(), key=lambda group: -group[0])


def _resized(specimen: Specimen, nodes: Iterable[ast.AST], extent: int) -> Specimen:
    """The specimen with another extent, and the strides of plain addresses that follow from it."""
    specimen = replace_nodes(specimen, {node: ast.Constant(extent) for node in nodes})
    addresses: dict[ast.AST, ast.AST] = {}
    for node, kind in infer_types(specimen).items():
        if not isinstance(node, ast.BinOp) or not isinstance(kind, Tensor) or not kind.pointer:
            continue
        if is_plain(node):
            pointer = next(name.id for name in names_in(node) if name.id in specimen.args)
            plain = address(pointer, kind.shape)
            if ast.dump(plain) != ast.dump(node):
                addresses[node] = plain
    if not addresses:
        return specimen
    return replace_nodes(specimen, addresses)
