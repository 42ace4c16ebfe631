"""Block pointers and masked, strided accesses become `pointer + arange`: all at once, then one by
one.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Iterator, Sequence

from flacheck.repro.kernel import plain_addresses
from flacheck.repro.kernel.block_types import BlockPointer, Tensor, Type
from flacheck.repro.kernel.rewriting import pointer_to, replaced, trimmed
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax_trees import called, names_in
from flacheck.repro.kernel.type_inference import inferred
from flacheck.repro.passes.search import at_each


def pointers(best: Specimen) -> Generator[Specimen, bool, None]:
    """Every load and store in the plain form."""
    if not (yield plainly(best, _odd(best))):
        yield from at_each(best, _odd, lambda specimen, node: [plainly(specimen, [node])])


def _odd(specimen: Specimen) -> list[ast.Call]:
    """Loads and stores that are not plain, of which the block is known."""
    types = inferred(specimen)
    accesses = [node for node in _accesses(specimen) if not _is_plain(node)]
    return [node for node in accesses if _reached(types.get(node.args[0]))]


def _accesses(specimen: Specimen) -> Iterator[ast.Call]:
    for node in ast.walk(specimen.function):
        if isinstance(node, ast.Call) and called(node) in ("tl.load", "tl.store") and node.args:
            yield node


def _reached(kind: Type) -> Tensor | None:
    """The block that an address leads to."""
    if isinstance(kind, BlockPointer):
        return Tensor(kind.dtype, kind.shape)
    if isinstance(kind, Tensor) and kind.pointer:
        return Tensor(kind.dtype[1:], kind.shape)
    return None


def _is_plain(node: ast.Call) -> bool:
    return not node.keywords and len(node.args) <= 2 and plain_addresses.is_plain(node.args[0])


def plainly(specimen: Specimen, nodes: Sequence[ast.Call]) -> Specimen:
    """The specimen with these accesses in the plain form, each through a parameter of its dtype."""
    types = inferred(specimen)
    args = dict(specimen.args)
    plain: dict[ast.AST, ast.AST] = {}
    for node in nodes:
        block = _reached(types.get(node.args[0]))
        if block is None:
            continue
        pointer = _own_pointer(node, specimen) or pointer_to(block.dtype, args, specimen)
        values = []
        if called(node) == "tl.store":
            values = copy.deepcopy(node.args[1:2])
        address = plain_addresses.address(pointer, block.shape)
        plain[node] = ast.Call(node.func, [address, *values], [])
    return trimmed(replaced(specimen, plain, args))


def _own_pointer(node: ast.Call, specimen: Specimen) -> str | None:
    """The parameter in an address that is written out."""
    pointers = specimen.pointers
    return next((n.id for n in names_in(node.args[0]) if n.id in pointers), None)
