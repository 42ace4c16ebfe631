"""The pass that finds most failures at once: one operation with the few that feed it, everything else loaded.

A candidate is built, not cut: an operation of the kernel, up to a depth of the operations below it, its inputs plain
loads, its result stored. Small ones come first, so that the first that fails is near the smallest.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Iterator

from flacheck.repro import addresses
from flacheck.repro.dataflow import Value, values
from flacheck.repro.editing import edited
from flacheck.repro.specimen import Specimen
from flacheck.repro.syntax import assign
from flacheck.repro.types import Tensor

DEPTHS = (1, 2, 3, 4)
MOST = 160
POINTERS = "xyzwuv"
_ORDER = ("tl.dot", "tl.associative_scan", "tl.sum", "tl.max", "tl.reduce", "tl.cumsum", "tl.sort", "tl.trans")


class Slices:
    """One operation and what feeds it, in place of the whole kernel."""

    name = "slices"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        seen: set[str] = set()
        for candidate in sliced(best):
            if candidate.key in seen or len(seen) >= MOST:
                continue
            seen.add(candidate.key)
            if (yield candidate):
                return


def sliced(specimen: Specimen) -> Iterator[Specimen]:
    """Slices of every operation, shallow ones first, dots and reductions before arithmetic."""
    found = sorted(enumerate(values(specimen)), key=lambda pair: (_rank(pair[1]), -pair[0]))
    for depth in DEPTHS:
        for _, value in found:
            for share in (True, False):
                yield Slice(depth, share).specimen(specimen, value)


def _rank(value: Value) -> int:
    return _ORDER.index(value.operation) if value.operation in _ORDER else len(_ORDER)


class Slice:
    """A kernel under construction. With `share`, inputs of one type are one load."""

    def __init__(self, depth: int, share: bool) -> None:
        self._depth, self._share = depth, share
        self._body: list[ast.stmt] = []
        self._pointers: dict[str, str] = {}
        self._loaded: dict[object, str] = {}

    def specimen(self, before: Specimen, value: Value) -> Specimen:
        result = self._result(value, self._depth)
        self._body.append(addresses.store(self._pointer(value.type.dtype), value.type.shape, result))
        with edited(before) as kernel:
            kernel.replace(self._body, {p: {"dtype": d, "align": 16} for d, p in self._pointers.items()})
        return kernel.specimen

    def _result(self, value: Value, depth: int) -> ast.expr:
        if value.made and (depth > 0 or value.operation == "tl.arange"):
            return copy.deepcopy(value.node)
        if depth == 0 or not value.operands:
            return self._input(value)
        if value in self._loaded:
            return ast.Name(self._loaded[value], ast.Load())
        changes: dict[int, ast.AST] = {}
        for part, operand in value.operands:
            changes[id(part)] = self._result(operand, depth - bool(operand.type.shape))
        name = f"c{len(self._loaded) + 1}"
        self._body.append(assign(name, copy.deepcopy(value.node, changes)))
        self._loaded[value] = name
        return ast.Name(name, ast.Load())

    def _input(self, value: Value) -> ast.expr:
        if value.type.pointer:
            return addresses.address(self._pointer(value.type.dtype[1:]), value.type.shape)
        key: object = value.type if self._share else value
        if key not in self._loaded:
            self._loaded[key] = f"c{len(self._loaded) + 1}"
            self._body.append(assign(self._loaded[key], self._load(value.type)))
        return ast.Name(self._loaded[key], ast.Load())

    def _load(self, type: Tensor) -> ast.expr:
        return addresses.load(self._pointer(type.dtype), type.shape)

    def _pointer(self, dtype: str) -> str:
        """One parameter for each dtype."""
        if dtype not in self._pointers:
            self._pointers[dtype] = POINTERS[len(self._pointers)]
        return self._pointers[dtype]
