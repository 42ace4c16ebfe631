"""New kernels from operations of a kernel, with loads in place of their inputs.

A slice is one operation with its operands up to a depth; its inputs are plain loads, and its result
is stored. Slices reproduce most failures at once. Small slices come first, so that the first that
fails is near the smallest.

A pipeline is a loop of one dot and its operands, because the buffers of a software pipeline take
most of a kernel's shared memory. A variable that the kernel carries between iterations becomes the
sum itself if the types agree, or else is loaded before the loop. More operands take more memory, so
the deepest pipeline comes first, and shallower ones only as long as they still fail.
"""

import ast
import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from flacheck.capabilities.repro.kernel import plain_addresses
from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.candidates import cost, is_valid
from flacheck.capabilities.repro.kernel.expression_types import NAMES, Tensor
from flacheck.capabilities.repro.kernel.rewriting import rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.value_graph import Value, operations
from flacheck.capabilities.repro.passes.search import (
    TOGETHER,
    Proposals,
    ProposalsAndProbes,
    propose_in_batches,
)

# No kernel has more than six dtypes in memory.
_POINTERS = "xyzwuv"
SLICE_DEPTHS = (1, 2, 3, 4)
# A limit for kernels of hundreds of operations; shallow slices come first and are within it.
MOST = 160
# The operations that fail most often come first.
_FIRST = "tl.dot tl.associative_scan tl.sum tl.max tl.reduce tl.cumsum tl.sort tl.trans".split()
_RANK = {operation: rank for rank, operation in enumerate(_FIRST)}
# The deepest pipeline takes the most memory.
LOOP_DEPTHS = (8, 4, 2, 1)
# More iterations than any pipeline has stages.
TURN, SUM, TURNS = "i", "sum", 64


class NewKernel:
    """A kernel under construction, with one pointer a dtype and variables `c1`, `c2` and so on."""

    def __init__(self) -> None:
        self.body: trees.Block = []
        self.bound: dict[object, str] = {}
        self._pointers: dict[str, str] = {}
        self._names = (f"c{number}" for number in itertools.count(1))

    def specimen(self, before: Specimen) -> Specimen:
        """Return the specimen with this kernel instead of its own."""
        args: dict[str, Any] = {}
        for dtype, name in self._pointers.items():
            args[name] = {"dtype": dtype, "align": 16}
        return rewrite(before, self.body, args)

    def pointer(self, dtype: str) -> str:
        """Return the parameter that points to a dtype; add it if necessary."""
        if dtype not in self._pointers:
            self._pointers[dtype] = _POINTERS[len(self._pointers)]
        return self._pointers[dtype]

    def new_name(self, key: object) -> str:
        """Bind a new variable to a key and return its name."""
        self.bound[key] = next(self._names)
        return self.bound[key]

    def apply(self, value: Value, depth: int) -> ast.expr:
        """Return a value's operation on its operands' results; scalars do not count as depth."""
        inputs: dict[int, ast.AST] = {}
        for part, operand in value.operands:
            inputs[id(part)] = self.result(operand, depth - bool(operand.type.shape))
        copy_of_operation: ast.expr = trees.copied(value.node, inputs)
        return copy_of_operation

    def result(self, value: Value, depth: int) -> ast.expr:
        """Return the expression for a value, after adding its statements."""
        raise NotImplementedError

    def store(self, kind: Tensor, value: ast.expr) -> None:
        self.body.append(plain_addresses.store(self.pointer(kind.dtype), kind.shape, value))


@dataclass(frozen=True)
class SlicePlan:
    """An operation, the depth of its operands, and True in `share` for one load a type."""

    value: Value
    depth: int
    share: bool


def slices(best: Specimen) -> ProposalsAndProbes:
    """Propose slices in place of the whole kernel; a probe contains a dozen of them."""
    yield from propose_in_batches(distinct(best), partial(build_slices, best), TOGETHER)


def single_slices(best: Specimen) -> ProposalsAndProbes:
    """Propose slices in place of the whole kernel, one by one."""
    yield from propose_in_batches(distinct(best), partial(build_slices, best), 1)


def distinct(specimen: Specimen) -> Iterator[SlicePlan]:
    """Yield the distinct slices that cost less than the whole kernel."""
    keys: set[str] = set()
    # Shallow slices first; of equal rank the last operation, which is nearest to a store.
    values = operations(specimen)[::-1]
    values.sort(key=lambda value: _RANK.get(value.operation, len(_RANK)))
    for depth, value, share in itertools.product(SLICE_DEPTHS, values, (True, False)):
        if len(keys) == MOST:
            return
        plan = SlicePlan(value, depth, share)
        candidate = build_slices(specimen, [plan])
        if candidate.key in keys or cost(candidate) >= cost(specimen):
            continue
        if is_valid(candidate):
            keys.add(candidate.key)
            yield plan


def build_slices(before: Specimen, plans: Sequence[SlicePlan]) -> Specimen:
    """Return a kernel of these slices; each has its own loads and ends with a store."""
    kernel = _Slices()
    for plan in plans:
        kernel.bound, kernel.share = {}, plan.share
        kernel.store(plan.value.type, kernel.result(plan.value, plan.depth))
    return kernel.specimen(before)


class _Slices(NewKernel):
    """A kernel of slices; with `share`, the variable of a load is bound to its type."""

    share = True

    def result(self, value: Value, depth: int) -> ast.expr:
        # Below the depth everything is loaded, except ranges, which the loads contain.
        if value.is_constant and (depth > 0 or value.operation == "tl.arange"):
            return copy.deepcopy(value.node)
        kind, is_input = value.type, depth == 0 or not value.operands
        if is_input and kind.pointer:
            return plain_addresses.address(self.pointer(kind.dtype[1:]), kind.shape)
        key: object = value
        if is_input and self.share:
            key = kind
        if key not in self.bound:
            if is_input:
                expression = plain_addresses.load(self.pointer(kind.dtype), kind.shape)
            else:
                expression = self.apply(value, depth)
            self.body.append(trees.assign(self.new_name(key), expression))
        return trees.variable(self.bound[key])


def pipelines(best: Specimen) -> Proposals:
    """Propose a loop around one dot and its operands, in place of the whole kernel."""
    dots = [value for value in operations(best) if value.operation == "tl.dot"]
    for dot in reversed(dots):
        is_accepted = False
        for depth in LOOP_DEPTHS:
            if not (yield in_loop(best, dot, depth)):
                break
            is_accepted = True
        if is_accepted:
            return


def in_loop(before: Specimen, value: Value, depth: int) -> Specimen:
    """Return a kernel that adds up the values of a loop's iterations and stores the sum."""
    kind = value.type
    kernel = _Pipeline()
    kernel.total = kind
    result = kernel.result(value, depth)
    step = ast.BinOp(trees.variable(SUM), ast.Add(), result)
    turn = [*kernel.body, trees.assign(SUM, step)]
    zeros = trees.expression(f"tl.zeros({list(kind.shape)}, dtype=tl.{NAMES[kind.dtype]})")
    turns = trees.expression(f"range({TURNS})")
    loop = ast.For(ast.Name(TURN, ast.Store()), turns, turn, [])
    kernel.body = [*kernel.before, trees.assign(SUM, zeros), loop]
    kernel.store(kind, trees.variable(SUM))
    return kernel.specimen(before)


class _Pipeline(NewKernel):
    """A kernel with a loop; `body` is one iteration, `before` the loads before the loop."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.before: trees.Block = []

    def result(self, value: Value, depth: int) -> ast.expr:
        # A variable that the kernel carries between iterations is not bound in the loop.
        is_carried = isinstance(value.node, ast.Name)
        if value.is_constant:
            return copy.deepcopy(value.node)
        if is_carried and value.type == self.total:
            return trees.variable(SUM)
        if value not in self.bound:
            name = self.new_name(value)
            if is_carried:
                self.before.append(trees.assign(name, self._load(value.type)))
            elif depth == 0 or not value.operands:
                # Every iteration loads from another address.
                turn = f"{TURN} * {value.type.size}"
                self.body.append(trees.assign(name, self._load(value.type, turn)))
            else:
                self.body.append(trees.assign(name, self.apply(value, depth)))
        return trees.variable(self.bound[value])

    def _load(self, kind: Tensor, turn: str = "") -> ast.expr:
        terms = (self.pointer(kind.dtype), turn, plain_addresses.offsets(kind.shape))
        address = trees.expression(" + ".join(filter(None, terms)))
        return ast.Call(trees.expression("tl.load"), [address], [])
