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
from collections.abc import Generator

from flacheck.repro.kernel import plain_addresses
from flacheck.repro.kernel.block_types import NAMES, Tensor
from flacheck.repro.kernel.building import NewKernel, applied
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax_trees import Block, assign, expression, variable
from flacheck.repro.kernel.value_graph import Value, operations

DEPTHS = (8, 4, 2, 1)
# More turns than any pipeline has stages.
TURN, SUM, TURNS = "i", "sum", 64


def pipelines(best: Specimen) -> Generator[Specimen, bool, None]:
    """A loop around one dot and what feeds it, in place of the whole kernel."""
    dots = [value for value in operations(best) if value.operation == "tl.dot"]
    for dot in reversed(dots):
        taken = False
        for depth in DEPTHS:
            if not (yield in_loop(best, dot, depth)):
                break
            taken = True
        if taken:
            return


def in_loop(before: Specimen, value: Value, depth: int) -> Specimen:
    """A kernel that adds up the values of a loop's turns and stores the sum."""
    kernel = NewKernel()
    pipeline = _Pipeline(kernel, value.type)
    step = ast.BinOp(variable(SUM), ast.Add(), pipeline.result(value, depth))
    turn = [*kernel.body, assign(SUM, step)]
    kind = value.type
    zeros = expression(f"tl.zeros({list(kind.shape)}, dtype=tl.{NAMES[kind.dtype]})")
    loop = ast.For(ast.Name(TURN, ast.Store()), expression(f"range({TURNS})"), turn, [])
    store = plain_addresses.store(kernel.pointer(kind.dtype), kind.shape, variable(SUM))
    kernel.body = [*pipeline.before, assign(SUM, zeros), loop, store]
    return kernel.specimen(before)


class _Pipeline:
    """A loop's body under construction in a kernel; `before` is what is loaded once, before it."""

    def __init__(self, kernel: NewKernel, total: Tensor) -> None:
        self._kernel, self._total = kernel, total
        self.before: Block = []
        self._bound: dict[Value, str] = {}

    def result(self, value: Value, depth: int) -> ast.expr:
        # What the kernel carries from turn to turn is a name that nothing in the loop has bound.
        carried = isinstance(value.node, ast.Name)
        if value.made:
            return copy.deepcopy(value.node)
        if carried and value.type == self._total:
            return variable(SUM)
        if value not in self._bound:
            name = self._bound[value] = self._kernel.new_name()
            if carried:
                self.before.append(assign(name, self._load(value.type)))
            else:
                self._kernel.body.append(assign(name, self._in_turn(value, depth)))
        return variable(self._bound[value])

    def _in_turn(self, value: Value, depth: int) -> ast.expr:
        """Computed anew in every turn, or loaded from another place."""
        if depth == 0 or not value.operands:
            return self._load(value.type, f"{TURN} * {value.type.size}")
        inputs: dict[ast.AST, ast.expr] = {}
        for part, operand in value.operands:
            inputs[part] = self.result(operand, depth - bool(operand.type.shape))
        return applied(value, inputs)

    def _load(self, kind: Tensor, turn: str = "") -> ast.expr:
        terms = (self._kernel.pointer(kind.dtype), turn, plain_addresses.offsets(kind.shape))
        address = expression(" + ".join(filter(None, terms)))
        return ast.Call(expression("tl.load"), [address], [])
