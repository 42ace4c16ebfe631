"""Simplification of blocks: loads and stores as `pointer + arange`, and smaller extents."""

import ast
import copy
from collections.abc import Iterable, Iterator, Sequence

from flacheck.capabilities.repro.kernel.expression_types import BlockPointer, Tensor
from flacheck.capabilities.repro.kernel.plain_addresses import address, is_plain, shape_of
from flacheck.capabilities.repro.kernel.rewriting import (
    drop_unread_parameters,
    pointer_to,
    replace_nodes,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import callee_name, names_in
from flacheck.capabilities.repro.passes.search import (
    Proposals,
    propose_at_each,
    propose_until_accepted,
)

# Triton up to 3.3 refuses a dot with a smaller axis.
SMALLEST_DOT = 16
# All releases require powers of two as extents.
EXTENTS = (SMALLEST_DOT, 32, 64, 128, 256, 512)


def pointers(best: Specimen) -> Proposals:
    """Propose every load and store in the plain form."""
    if not (yield with_plain_accesses(best, _complex_accesses(best))):
        yield from propose_at_each(best, _complex_accesses, _with_plain_access)


def _with_plain_access(specimen: Specimen, node: ast.Call) -> list[Specimen]:
    return [with_plain_accesses(specimen, [node])]


def _complex_accesses(specimen: Specimen) -> list[ast.Call]:
    """Return loads and stores that are not plain and whose block is known."""
    types = specimen.types
    accesses = []
    for node in ast.walk(specimen.function):
        is_access = callee_name(node) in ("tl.load", "tl.store")
        if not is_access or not isinstance(node, ast.Call):
            continue
        if not node.args or _is_plain_access(node):
            continue
        kind = types.get(node.args[0])
        is_pointer = isinstance(kind, Tensor) and kind.pointer
        if is_pointer or isinstance(kind, BlockPointer):
            accesses.append(node)
    return accesses


def _is_plain_access(call: ast.Call) -> bool:
    return not call.keywords and len(call.args) <= 2 and is_plain(call.args[0])


def with_plain_accesses(specimen: Specimen, nodes: Sequence[ast.Call]) -> Specimen:
    """Return the specimen with these accesses in plain form, through parameters of their dtypes."""
    types = specimen.types
    args = dict(specimen.args)
    plain: dict[ast.AST, ast.AST] = {}
    for node in nodes:
        kind = types[node.args[0]]
        assert isinstance(kind, (Tensor, BlockPointer))
        block = kind.pointee
        # The address may contain a pointer parameter already.
        pointers = [n.id for n in names_in(node.args[0]) if n.id in specimen.pointers]
        pointer = pointers[0] if pointers else pointer_to(block.dtype, args, specimen)
        arguments = [address(pointer, block.shape)]
        # A store keeps its value, but not masks, boundary checks and cache hints.
        if callee_name(node) == "tl.store":
            arguments += copy.deepcopy(node.args[1:2])
        plain[node] = ast.Call(node.func, arguments, [])
    candidate = replace_nodes(specimen, plain, args)
    return drop_unread_parameters(candidate)


def smallest(best: Specimen) -> Proposals:
    """Propose all extents at the smallest size of a dot.

    If this is accepted, all later candidates compile in a fraction of the time.
    """
    large = _large_extents(best)
    if large:
        yield _with_extent(best, large, SMALLEST_DOT)


def _large_extents(specimen: Specimen) -> list[ast.AST]:
    return [node for node, number in _extents(specimen).items() if number > SMALLEST_DOT]


def _extents(specimen: Specimen) -> dict[ast.AST, int]:
    """Return the numbers in the kernel's body that may be extents, by node."""
    numbers: dict[ast.AST, int] = {}
    for node in ast.walk(ast.Module(specimen.function.body, [])):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
            numbers[node] = node.value
    return numbers


def dimensions(best: Specimen) -> Proposals:
    """Propose smaller extents: all at once, then all of one value, then each by itself."""
    if (yield _with_extent(best, _large_extents(best), SMALLEST_DOT)):
        return
    for together in (True, False):
        position = 0
        groups = _groups(best, together)
        while position < len(groups):
            value, nodes = groups[position]
            sizes = [size for size in EXTENTS if size < value]
            candidates = (_with_extent(best, nodes, size) for size in sizes)
            best = (yield from propose_until_accepted(candidates)) or best
            position += 1
            groups = _groups(best, together)


def _groups(specimen: Specimen, together: bool) -> list[tuple[int, list[ast.AST]]]:
    """Return the literals that change together, by value or each alone, largest first."""
    groups: dict[int, tuple[int, list[ast.AST]]] = {}
    for node, number in _extents(specimen).items():
        key = number if together else id(node)
        _, nodes = groups.setdefault(key, (number, []))
        nodes.append(node)
    return sorted(groups.values(), key=lambda group: -group[0])


def _with_extent(specimen: Specimen, nodes: Iterable[ast.AST], extent: int) -> Specimen:
    """Return the specimen with another extent and the resulting strides of plain addresses."""
    specimen = replace_nodes(specimen, {node: ast.Constant(extent) for node in nodes})
    addresses: dict[ast.AST, ast.AST] = {}
    for node in _plain_sums(specimen.function):
        pointers = [name.id for name in names_in(node) if name.id in specimen.pointers]
        if pointers:
            plain = address(pointers[0], shape_of(node))
            if ast.dump(plain) != ast.dump(node):
                addresses[node] = plain
    if not addresses:
        return specimen
    return replace_nodes(specimen, addresses)


def _plain_sums(node: ast.AST) -> Iterator[ast.BinOp]:
    """Yield the plain addresses below a node, but not the sums inside them.

    In `x + rows * 64 + columns`, the inner sum is in plain form too, and of another shape.
    """
    if isinstance(node, ast.BinOp) and is_plain(node):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _plain_sums(child)
