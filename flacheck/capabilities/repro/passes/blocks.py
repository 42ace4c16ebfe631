"""Simplification of blocks: loads and stores as `pointer + arange`, and smaller extents."""

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
from flacheck.capabilities.repro.passes.search import propose_at_each, propose_until_accepted

# All releases require powers of two as extents.
EXTENTS = (SMALLEST_DOT, 32, 64, 128, 256, 512)


def pointers(best: Specimen) -> Generator[Specimen, bool, None]:
    """Propose every load and store in the plain form."""
    if not (yield with_plain_accesses(best, _complex_accesses(best))):
        yield from propose_at_each(
            best, _complex_accesses, lambda specimen, node: [with_plain_accesses(specimen, [node])]
        )


def _complex_accesses(specimen: Specimen) -> list[ast.Call]:
    """Return loads and stores that are not plain and whose block is known."""
    types = infer_types(specimen)
    accesses = []
    for node in ast.walk(specimen.function):
        if not isinstance(node, ast.Call) or callee_name(node) not in ("tl.load", "tl.store"):
            continue
        if not node.args or _is_plain_access(node):
            continue
        kind = types.get(node.args[0])
        if isinstance(kind, BlockPointer) or (isinstance(kind, Tensor) and kind.pointer):
            accesses.append(node)
    return accesses


def _is_plain_access(call: ast.Call) -> bool:
    return not call.keywords and len(call.args) <= 2 and is_plain(call.args[0])


def with_plain_accesses(specimen: Specimen, nodes: Sequence[ast.Call]) -> Specimen:
    """Return the specimen with these accesses in plain form, through parameters of their dtypes."""
    types = infer_types(specimen)
    args = dict(specimen.args)
    plain: dict[ast.AST, ast.AST] = {}
    for node in nodes:
        block = pointee(types[node.args[0]])
        # The address may contain a pointer parameter already.
        pointers = [n.id for n in names_in(node.args[0]) if n.id in specimen.pointers]
        pointer = pointers[0] if pointers else pointer_to(block.dtype, args, specimen)
        values = []
        # A store keeps its value, but not masks, boundary checks and cache hints.
        if callee_name(node) == "tl.store":
            values = copy.deepcopy(node.args[1:2])
        plain[node] = ast.Call(node.func, [address(pointer, block.shape), *values], [])
    return drop_unread_parameters(replace_nodes(specimen, plain, args))


def smallest(best: Specimen) -> Generator[Specimen, bool, None]:
    """Propose all extents at the smallest size of a dot.

    If this is accepted, all later candidates compile in a fraction of the time.
    """
    large = _large_extents(best)
    if large:
        yield _with_extent(best, large, SMALLEST_DOT)


def _large_extents(specimen: Specimen) -> list[ast.AST]:
    extents = infer_kernel(specimen).extents
    return [node for node, extent in extents.items() if extent > SMALLEST_DOT]


def dimensions(best: Specimen) -> Generator[Specimen, bool, None]:
    """Propose smaller extents: all at once, then all of one value, then each group by itself."""
    if (yield _with_extent(best, _large_extents(best), SMALLEST_DOT)):
        return
    for together in (True, False):
        position = 0
        groups = _groups(best, together)
        while position < len(groups):
            value, nodes = groups[position]
            candidates = (_with_extent(best, nodes, size) for size in EXTENTS if size < value)
            best = (yield from propose_until_accepted(candidates)) or best
            position += 1
            groups = _groups(best, together)


def _groups(specimen: Specimen, together: bool) -> list[tuple[int, list[ast.AST]]]:
    """Return the literals that change together, by value or by group of extents, largest first."""
    groups: dict[int, tuple[int, list[ast.AST]]] = {}
    for node, extent in infer_kernel(specimen).extents.items():
        if extent > 1:
            key = int(extent) if together else id(extent.group())
            groups.setdefault(key, (int(extent), []))[1].append(node)
    return sorted(groups.values(), key=lambda group: -group[0])


def _with_extent(specimen: Specimen, nodes: Iterable[ast.AST], extent: int) -> Specimen:
    """Return the specimen with another extent and the resulting strides of plain addresses."""
    specimen = replace_nodes(specimen, {node: ast.Constant(extent) for node in nodes})
    addresses: dict[ast.AST, ast.AST] = {}
    for node, kind in infer_types(specimen).items():
        if not isinstance(node, ast.BinOp) or not isinstance(kind, Tensor) or not kind.pointer:
            continue
        if is_plain(node):
            pointers = [name.id for name in names_in(node) if name.id in specimen.args]
            plain = address(pointers[0], kind.shape)
            if ast.dump(plain) != ast.dump(node):
                addresses[node] = plain
    if not addresses:
        return specimen
    return replace_nodes(specimen, addresses)
