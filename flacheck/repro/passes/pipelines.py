"""The pass for what only a loop needs: the buffers of a software pipeline are most of a kernel's
shared memory.

Like a slice, a candidate is built: one dot and what feeds it, in a loop that loads what the kernel
loads and adds the results up. What the kernel carries from turn to turn is the sum itself where the
types agree, else loaded before. More of what feeds it is more memory, so the deepest is asked
first, and shallower ones only as long as they still fail.
"""

from __future__ import annotations

import ast
import copy
import itertools
import math
from collections.abc import Generator

from flacheck.repro.kernel import addresses
from flacheck.repro.kernel.dataflow import Value, values
from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import assign, expression
from flacheck.repro.kernel.types import NAMES, Tensor
from flacheck.repro.reducer import Probe

DEPTHS = (8, 4, 2, 1)
TURN, SUM, TURNS = "i", "sum", 64


class Pipelines:
    """A loop around one dot and what feeds it, in place of the whole kernel."""

    name = "pipelines"

    def search(self, best: Specimen) -> Generator[Specimen | Probe, bool, None]:
        dots = [value for value in values(best) if value.operation == "tl.dot"]
        for dot in reversed(dots):
            taken = 0
            for depth in DEPTHS:
                if not (yield Loop(dot, depth).specimen(best)):
                    break
                taken += 1
            if taken:
                return


class Loop:
    """A kernel under construction: what is loaded before the loop, the loop's body, and the store
    of the sum.
    """

    def __init__(self, value: Value, depth: int) -> None:
        self._value, self._depth = value, depth
        self._before: list[ast.stmt] = []
        self._body: list[ast.stmt] = []
        self._pointers: dict[str, str] = {}
        self._names = (f"c{number}" for number in itertools.count(1))
        self._known: dict[Value, str] = {}

    def specimen(self, before: Specimen) -> Specimen:
        kind = self._value.type
        self._body.append(
            assign(SUM, ast.BinOp(_name(SUM), ast.Add(), self._result(self._value, self._depth)))
        )
        loop = ast.For(ast.Name(TURN, ast.Store()), expression(f"range({TURNS})"), self._body, [])
        start = assign(
            SUM, expression(f"tl.zeros({list(kind.shape)}, dtype=tl.{NAMES[kind.dtype]})")
        )
        end = addresses.store(self._pointer(kind.dtype), kind.shape, _name(SUM))
        with edited(before) as kernel:
            kernel.replace([*self._before, start, loop, end], addresses.parameters(self._pointers))
        return kernel.specimen

    def _result(self, value: Value, depth: int) -> ast.expr:
        if value.made:
            return copy.deepcopy(value.node)
        if self._is_carried(value) and value.type == self._value.type:
            return _name(SUM)
        if value not in self._known:
            self._known[value] = next(self._names)
            if depth == 0 or not value.operands:
                self._load(value, self._known[value])
            else:
                changes: dict[int, ast.AST] = {
                    id(part): self._result(operand, depth - bool(operand.type.shape))
                    for part, operand in value.operands
                }
                self._body.append(assign(self._known[value], copy.deepcopy(value.node, changes)))
        return _name(self._known[value])

    def _load(self, value: Value, name: str) -> None:
        """In every turn, from another place; once, where the kernel carries the value round."""
        carried = self._is_carried(value)
        block = self._before if carried else self._body
        block.append(assign(name, self._loaded(value.type, None if carried else TURN)))

    def _is_carried(self, value: Value) -> bool:
        return isinstance(value.node, ast.Name)

    def _loaded(self, kind: Tensor, turn: str | None) -> ast.expr:
        turned = f"{turn} * {math.prod(kind.shape)}" if turn else ""
        terms = filter(None, (self._pointer(kind.dtype), turned, addresses.offsets(kind.shape)))
        return ast.Call(expression("tl.load"), [expression(" + ".join(terms))], [])

    def _pointer(self, dtype: str) -> str:
        return addresses.pointer(self._pointers, dtype)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())
