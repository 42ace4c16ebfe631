"""Kernels that are built, not cut: operations of a kernel, with loads in place of their inputs.

A slice is one operation, up to a depth of the operations below it, its inputs plain loads, its
result stored. It finds most failures at once. Small ones come first, so that the first that fails
is near the smallest.

A pipeline is a loop of one dot and what feeds it, for the buffers of a software pipeline are most
of a kernel's shared memory. What the kernel carries from turn to turn is the sum itself where the
types agree, else loaded before. More of what feeds the dot is more memory, so the deepest is asked
first, and shallower ones only as long as they still fail.
"""

import ast
import copy
import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flacheck.capabilities.repro.kernel import plain_addresses
from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.block_types import NAMES, Tensor
from flacheck.capabilities.repro.kernel.candidates import cost, is_valid
from flacheck.capabilities.repro.kernel.rewriting import rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.value_graph import Value, operations
from flacheck.capabilities.repro.passes.search import Probe

# More dtypes than six meet in no kernel.
_POINTERS = "xyzwuv"
SLICE_DEPTHS = (1, 2, 3, 4)
# A bound for kernels of hundreds of operations; the shallow slices come first and are within it.
MOST = 160
# So many slices are probed at once, in one kernel: enough to pass over most, few enough to compile
# quickly.
TOGETHER = 12
# What fails most often comes first.
_FIRST = "tl.dot tl.associative_scan tl.sum tl.max tl.reduce tl.cumsum tl.sort tl.trans".split()
_RANK = {operation: rank for rank, operation in enumerate(_FIRST)}
# The deepest takes most memory.
LOOP_DEPTHS = (8, 4, 2, 1)
# More turns than any pipeline has stages.
TURN, SUM, TURNS = "i", "sum", 64
Search = Generator["Specimen | Probe", bool, bool]


class NewKernel:
    """A kernel under construction: statements to be, one pointer a dtype, variables `c1`, `c2`…"""

    def __init__(self) -> None:
        self.body: trees.Block = []
        self.bound: dict[object, str] = {}
        self._pointers: dict[str, str] = {}
        self._names = (f"c{number}" for number in itertools.count(1))

    def specimen(self, before: Specimen) -> Specimen:
        """It in place of a specimen's kernel."""
        args = {name: {"dtype": dtype, "align": 16} for dtype, name in self._pointers.items()}
        return rewrite(before, self.body, args)

    def pointer(self, dtype: str) -> str:
        """The parameter that points to a dtype."""
        if dtype not in self._pointers:
            self._pointers[dtype] = _POINTERS[len(self._pointers)]
        return self._pointers[dtype]

    def new_name(self, key: object) -> str:
        """A name that stands for a key from now on."""
        self.bound[key] = next(self._names)
        return self.bound[key]

    def apply(self, value: Value, depth: int) -> ast.expr:
        """A value's operation on the results of its operands; a scalar is no deeper than it."""
        inputs: dict[int, Any] = {}
        for part, operand in value.operands:
            inputs[id(part)] = self.result(operand, depth - bool(operand.type.shape))
        return copy.deepcopy(value.node, inputs)

    def result(self, value: Value, depth: int) -> ast.expr:
        """The expression for a value, once its statements are there."""
        raise NotImplementedError

    def store(self, kind: Tensor, value: ast.expr) -> None:
        self.body.append(plain_addresses.store(self.pointer(kind.dtype), kind.shape, value))


@dataclass(frozen=True)
class SlicePlan:
    """An operation, how deep to go below it, whether inputs of one type are one load."""

    value: Value
    depth: int
    share: bool


def slices(best: Specimen) -> Generator[Specimen | Probe, bool, None]:
    """One operation and what feeds it, in place of the whole kernel; a dozen of them in a probe."""
    yield from _in_batches(best, TOGETHER)


def single_slices(best: Specimen) -> Generator[Specimen | Probe, bool, None]:
    """The same, asked one by one."""
    yield from _in_batches(best, 1)


def _in_batches(best: Specimen, size: int) -> Generator[Specimen | Probe, bool, None]:
    plans = distinct(best)
    while batch := list(itertools.islice(plans, size)):
        if (yield from _within(best, batch)):
            return


def _within(before: Specimen, plans: Sequence[SlicePlan], hides: bool = False) -> Search:
    """Whether one of these slices is taken. Several are first asked as one: what compiles hides no
    failure, and what fails otherwise may hide one. `hides`: one of them is known to fail."""
    if len(plans) == 1:
        return (yield build_slices(before, plans))
    if not hides and not (yield Probe(build_slices(before, plans))):
        return False
    middle = len(plans) // 2
    first, second = plans[:middle], plans[middle:]
    in_first = yield Probe(build_slices(before, first))
    if in_first and (yield from _within(before, first, hides=True)):
        return True
    return (yield from _within(before, second, hides=not in_first))


def distinct(specimen: Specimen) -> Iterator[SlicePlan]:
    """The slices worth a question, each once: none that is more to read than the whole kernel."""
    seen: set[str] = set()
    # Shallow ones first; of operations of one rank the last, which is nearest to what is stored.
    values = operations(specimen)[::-1]
    values.sort(key=lambda value: _RANK.get(value.operation, len(_RANK)))
    for depth, value, share in itertools.product(SLICE_DEPTHS, values, (True, False)):
        if len(seen) == MOST:
            return
        plan = SlicePlan(value, depth, share)
        candidate = build_slices(specimen, [plan])
        if candidate.key in seen or cost(candidate) >= cost(specimen):
            continue
        if is_valid(candidate):
            seen.add(candidate.key)
            yield plan


def build_slices(before: Specimen, plans: Sequence[SlicePlan]) -> Specimen:
    """A kernel of these slices; the store that ends each keeps their loads apart."""
    kernel = _Slices()
    for plan in plans:
        kernel.bound, kernel.share = {}, plan.share
        kernel.store(plan.value.type, kernel.result(plan.value, plan.depth))
    return kernel.specimen(before)


class _Slices(NewKernel):
    """Slices one after the other; where inputs of one type are one load, it is bound by type."""

    share = True

    def result(self, value: Value, depth: int) -> ast.expr:
        # Below the depth everything is loaded, but for ranges, which a load is made of.
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
                given = plain_addresses.load(self.pointer(kind.dtype), kind.shape)
            else:
                given = self.apply(value, depth)
            self.body.append(trees.assign(self.new_name(key), given))
        return trees.variable(self.bound[key])


def pipelines(best: Specimen) -> Generator[Specimen, bool, None]:
    """A loop around one dot and what feeds it, in place of the whole kernel."""
    dots = [value for value in operations(best) if value.operation == "tl.dot"]
    for dot in reversed(dots):
        taken = False
        for depth in LOOP_DEPTHS:
            if not (yield in_loop(best, dot, depth)):
                break
            taken = True
        if taken:
            return


def in_loop(before: Specimen, value: Value, depth: int) -> Specimen:
    """A kernel that adds up the values of a loop's turns and stores the sum."""
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
    """A loop, of which `body` is one turn; `before` is what is loaded once, before it."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.before: trees.Block = []

    def result(self, value: Value, depth: int) -> ast.expr:
        # What the kernel carries from turn to turn is a name that nothing in the loop has bound.
        carried = isinstance(value.node, ast.Name)
        if value.is_constant:
            return copy.deepcopy(value.node)
        if carried and value.type == self.total:
            return trees.variable(SUM)
        if value not in self.bound:
            name = self.new_name(value)
            if carried:
                self.before.append(trees.assign(name, self._load(value.type)))
            elif depth == 0 or not value.operands:
                # Every turn loads from another place.
                turn = f"{TURN} * {value.type.size}"
                self.body.append(trees.assign(name, self._load(value.type, turn)))
            else:
                self.body.append(trees.assign(name, self.apply(value, depth)))
        return trees.variable(self.bound[value])

    def _load(self, kind: Tensor, turn: str = "") -> ast.expr:
        terms = (self.pointer(kind.dtype), turn, plain_addresses.offsets(kind.shape))
        address = trees.expression(" + ".join(filter(None, terms)))
        return ast.Call(trees.expression("tl.load"), [address], [])
