"""The pass that finds most failures at once: one operation with the few that feed it, everything
else loaded.

A candidate is built, not cut: an operation of the kernel, up to a depth of the operations below it,
its inputs plain loads, its result stored. Small ones come first, so that the first that fails is
near the smallest.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from flacheck.repro.kernel import plain_addresses
from flacheck.repro.kernel.building import NewKernel, applied
from flacheck.repro.kernel.order import cost
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax_trees import assign, variable
from flacheck.repro.kernel.validity import is_valid
from flacheck.repro.kernel.value_graph import Value, operations
from flacheck.repro.passes.search import Probe

DEPTHS = (1, 2, 3, 4)
# A bound for kernels of hundreds of operations; the shallow slices come first and are within it.
MOST = 160
# So many slices are probed at once, in one kernel: enough to pass over most, few enough to compile
# quickly.
TOGETHER = 12
# What fails most often comes first.
_ORDER = (
    "tl.dot",
    "tl.associative_scan",
    "tl.sum",
    "tl.max",
    "tl.reduce",
    "tl.cumsum",
    "tl.sort",
    "tl.trans",
)
Search = Generator["Specimen | Probe", bool, bool]


@dataclass(frozen=True)
class SlicePlan:
    """A slice to be: the operation, how deep to go below it, whether inputs of one type are one
    load.
    """

    value: Value
    depth: int
    share: bool


def slices(best: Specimen) -> Generator[Specimen | Probe, bool, None]:
    """One operation and what feeds it, in place of the whole kernel; a dozen of them in a probe."""
    yield from _in_batches(best, TOGETHER)


def single_slices(best: Specimen) -> Generator[Specimen | Probe, bool, None]:
    """The same, asked one by one."""
    yield from _in_batches(best, 1)


def _in_batches(best: Specimen, size: int) -> Search:
    plans = distinct(best)
    while batch := list(itertools.islice(plans, size)):
        if (yield from _within(best, batch)):
            return True
    return False


def _within(before: Specimen, plans: Sequence[SlicePlan], hides: bool = False) -> Search:
    """Whether one of these slices is taken. Several are first asked as one: what compiles hides no
    failure, and what fails otherwise may hide one. `hides`: one of them is known to fail.
    """
    if len(plans) == 1:
        return (yield built(before, plans))
    if not hides and not (yield Probe(built(before, plans))):
        return False
    middle = len(plans) // 2
    first, second = plans[:middle], plans[middle:]
    in_first = yield Probe(built(before, first))
    if in_first and (yield from _within(before, first, hides=True)):
        return True
    return (yield from _within(before, second, hides=not in_first))


def distinct(specimen: Specimen) -> Iterator[SlicePlan]:
    """The slices worth a question, each once: shallow ones first, dots and reductions before
    arithmetic; none that is more to read than what it is a slice of.
    """
    seen: set[str] = set()
    for plan in _plans(specimen):
        if len(seen) == MOST:
            return
        candidate = built(specimen, [plan])
        if candidate.key in seen or cost(candidate) >= cost(specimen):
            continue
        if is_valid(candidate):
            seen.add(candidate.key)
            yield plan


def _plans(specimen: Specimen) -> Iterator[SlicePlan]:
    # Of operations of one kind the last first: it is nearest to what the kernel is for.
    values = operations(specimen)[::-1]
    values.sort(key=_rank)
    for depth, value, share in itertools.product(DEPTHS, values, (True, False)):
        yield SlicePlan(value, depth, share)


def _rank(value: Value) -> int:
    if value.operation in _ORDER:
        return _ORDER.index(value.operation)
    return len(_ORDER)


def built(before: Specimen, plans: Sequence[SlicePlan]) -> Specimen:
    """A kernel of these slices, one after the other; the store that ends each keeps their loads
    apart.
    """
    kernel = NewKernel()
    for plan in plans:
        kind = plan.value.type
        result = _Slice(kernel, plan.share).result(plan.value, plan.depth)
        kernel.body.append(plain_addresses.store(kernel.pointer(kind.dtype), kind.shape, result))
    return kernel.specimen(before)


class _Slice:
    """A slice under construction: what it has computed or loaded, by value, or by type where inputs
    of one type are one load.
    """

    def __init__(self, kernel: NewKernel, share: bool) -> None:
        self._kernel, self._share = kernel, share
        self._bound: dict[object, str] = {}

    def result(self, value: Value, depth: int) -> ast.expr:
        if value.made and (depth > 0 or value.operation == "tl.arange"):
            return copy.deepcopy(value.node)
        if depth == 0 or not value.operands:
            return self._input(value)
        if value not in self._bound:
            inputs: dict[ast.AST, ast.expr] = {}
            for part, operand in value.operands:
                inputs[part] = self.result(operand, depth - bool(operand.type.shape))
            self._bind(value, applied(value, inputs))
        return variable(self._bound[value])

    def _input(self, value: Value) -> ast.expr:
        kind = value.type
        if kind.pointer:
            return plain_addresses.address(self._kernel.pointer(kind.dtype[1:]), kind.shape)
        key: object = kind if self._share else value
        if key not in self._bound:
            self._bind(key, plain_addresses.load(self._kernel.pointer(kind.dtype), kind.shape))
        return variable(self._bound[key])

    def _bind(self, key: object, value: ast.expr) -> None:
        self._bound[key] = self._kernel.new_name()
        self._kernel.body.append(assign(self._bound[key], value))
