"""Block pointers and masked, strided accesses become `pointer + arange`: all at once, then one by
one.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Iterator, Mapping

from flacheck.repro.kernel import addresses
from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.inference import inferred
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import called
from flacheck.repro.kernel.types import BlockPointer, Tensor, Type
from flacheck.repro.passes.expressions import pointer_to, trimmed


class Pointers:
    """Every load and store in the plain form."""

    name = "pointers"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        if (yield plainly(best, _odd(best))):
            return
        at = 0
        while at < len(odd := _odd(best)):
            candidate = plainly(best, [odd[at]])
            if (yield candidate):
                best = candidate
            else:
                at += 1


def _odd(specimen: Specimen) -> list[ast.Call]:
    """Loads and stores that are not plain, of which the block is known."""
    types = inferred(specimen)
    return [
        node
        for node in _accesses(specimen)
        if _reached(types.get(node.args[0])) and not _is_plain(node)
    ]


def _accesses(specimen: Specimen) -> Iterator[ast.Call]:
    for node in ast.walk(specimen.function):
        if isinstance(node, ast.Call) and called(node) in ("tl.load", "tl.store") and node.args:
            yield node


def _reached(kind: Type | None) -> tuple[str, tuple[int, ...]] | None:
    """The dtype and shape that an address leads to."""
    if isinstance(kind, BlockPointer):
        return kind.dtype, kind.shape
    return (kind.dtype[1:], kind.shape) if isinstance(kind, Tensor) and kind.pointer else None


def _is_plain(node: ast.Call) -> bool:
    return not node.keywords and len(node.args) <= 2 and addresses.is_plain(node.args[0])


def plainly(specimen: Specimen, nodes: list[ast.Call]) -> Specimen:
    """The specimen with these accesses in the plain form, each through a parameter of its dtype."""
    types: Mapping[ast.AST, Type | None] = inferred(specimen)
    with edited(specimen) as kernel:
        changes: dict[int, ast.AST] = {}
        for node in nodes:
            found = _reached(types.get(node.args[0]))
            if found:
                address = addresses.address(
                    _own_pointer(node, specimen) or pointer_to(kernel, found[0]), found[1]
                )
                values = (
                    [copy.deepcopy(value) for value in node.args[1:2]]
                    if called(node) == "tl.store"
                    else []
                )
                changes[id(node)] = ast.Call(node.func, [address, *values], [])
        kernel.body = copy.deepcopy(specimen.function.body, changes)
    return trimmed(kernel.specimen)


def _own_pointer(node: ast.Call, specimen: Specimen) -> str | None:
    """The parameter in an address that is written out."""
    names = [n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)]
    pointers = [
        name
        for name in names
        if isinstance(specimen.args.get(name), Mapping) and "dtype" in specimen.args[name]
    ]
    return pointers[0] if pointers else None
