"""Block pointers and masked, strided accesses become `pointer + arange`: all at once, then one by
one.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Iterator, Sequence

from flacheck.repro.kernel.block_types import BlockPointer, Tensor, Type, reached
from flacheck.repro.kernel.plain_addresses import address, is_plain
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
    return [node for node in _accesses(specimen) if _leads_somewhere(types.get(node.args[0]))]


def _accesses(specimen: Specimen) -> Iterator[ast.Call]:
    for node in ast.walk(specimen.function):
        if isinstance(node, ast.Call) and called(node) in ("tl.load", "tl.store") and node.args:
            if node.keywords or len(node.args) > 2 or not is_plain(node.args[0]):
                yield node


def _leads_somewhere(kind: Type) -> bool:
    return isinstance(kind, BlockPointer) or (isinstance(kind, Tensor) and kind.pointer)


def plainly(specimen: Specimen, nodes: Sequence[ast.Call]) -> Specimen:
    """The specimen with these accesses in the plain form, each through a parameter of its dtype."""
    types = inferred(specimen)
    args = dict(specimen.args)
    plain: dict[ast.AST, ast.AST] = {}
    for node in nodes:
        block = reached(types[node.args[0]])
        pointer = _own_pointer(node, specimen) or pointer_to(block.dtype, args, specimen)
        values = []
        if called(node) == "tl.store":
            values = copy.deepcopy(node.args[1:2])
        plain[node] = ast.Call(node.func, [address(pointer, block.shape), *values], [])
    return trimmed(replaced(specimen, plain, args))


def _own_pointer(node: ast.Call, specimen: Specimen) -> str | None:
    """The parameter in an address that is written out."""
    pointers = specimen.pointers
    return next((n.id for n in names_in(node.args[0]) if n.id in pointers), None)
