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

from flacheck.repro.kernel import addresses
from flacheck.repro.kernel.dataflow import Value, values
from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.order import cost
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import assign
from flacheck.repro.kernel.types import Tensor
from flacheck.repro.kernel.validity import is_valid
from flacheck.repro.reducer import Probe

DEPTHS = (1, 2, 3, 4)
MOST = 160
# So many slices are probed at once, in one kernel: enough to pass over most, few enough to compile
# quickly.
TOGETHER = 12
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


@dataclass(frozen=True)
class Plan:
    """A slice to be: the operation, how deep to go below it, whether inputs of one type are one
    load.
    """

    value: Value
    depth: int
    share: bool


@dataclass(frozen=True)
class Slices:
    """One operation and what feeds it, in place of the whole kernel; so many of them `together` in
    a probe.
    """

    together: int = TOGETHER
    name: str = "slices"

    def search(self, best: Specimen) -> Generator[Specimen | Probe, bool, None]:
        plans = distinct(best)
        while batch := list(itertools.islice(plans, self.together)):
            if (yield from _within(best, batch)):
                return


def _within(
    before: Specimen, plans: Sequence[Plan], hides: bool = False
) -> Generator[Specimen | Probe, bool, bool]:
    """Whether one of these slices is taken. Several are first asked as one: what compiles hides no
    failure, and what fails otherwise may hide one. `hides`: one of them is known to fail.
    """
    if len(plans) == 1:
        return (yield built(before, plans))
    if not hides and not (yield Probe(built(before, plans))):
        return False
    middle = len(plans) // 2
    first, second = plans[:middle], plans[middle:]
    found = yield Probe(built(before, first))
    if found and (yield from _within(before, first, hides=True)):
        return True
    return (yield from _within(before, second, hides=not found))


def distinct(specimen: Specimen) -> Iterator[Plan]:
    """The slices worth a question, each once: shallow ones first, dots and reductions before
    arithmetic; none that is more to read than what it is a slice of.
    """
    seen: set[str] = set()
    for plan in _plans(specimen):
        candidate = built(specimen, [plan])
        fresh = len(seen) < MOST and candidate.key not in seen and cost(candidate) < cost(specimen)
        if fresh and is_valid(candidate):
            seen.add(candidate.key)
            yield plan


def _plans(specimen: Specimen) -> Iterator[Plan]:
    found = sorted(enumerate(values(specimen)), key=lambda pair: (_rank(pair[1]), -pair[0]))
    return (
        Plan(value, depth, share)
        for depth in DEPTHS
        for _, value in found
        for share in (True, False)
    )


def _rank(value: Value) -> int:
    return _ORDER.index(value.operation) if value.operation in _ORDER else len(_ORDER)


def built(before: Specimen, plans: Sequence[Plan]) -> Specimen:
    """A kernel of these slices, one after the other; the store that ends each keeps their loads
    apart.
    """
    pointers: dict[str, str] = {}
    names = (f"c{number}" for number in itertools.count(1))
    body = [statement for plan in plans for statement in Slice(plan, pointers, names).body]
    with edited(before) as kernel:
        kernel.replace(body, addresses.parameters(pointers))
    return kernel.specimen


class Slice:
    """A part of a kernel under construction: `body` when it is done. `pointers` and `names` are the
    kernel's.
    """

    def __init__(self, plan: Plan, pointers: dict[str, str], names: Iterator[str]) -> None:
        self._share, self._pointers, self._names = plan.share, pointers, names
        self.body: list[ast.stmt] = []
        self._loaded: dict[object, str] = {}
        result, kind = self._result(plan.value, plan.depth), plan.value.type
        self.body.append(addresses.store(self._pointer(kind.dtype), kind.shape, result))

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
        name = next(self._names)
        self.body.append(assign(name, copy.deepcopy(value.node, changes)))
        self._loaded[value] = name
        return ast.Name(name, ast.Load())

    def _input(self, value: Value) -> ast.expr:
        if value.type.pointer:
            return addresses.address(self._pointer(value.type.dtype[1:]), value.type.shape)
        key: object = value.type if self._share else value
        if key not in self._loaded:
            self._loaded[key] = next(self._names)
            self.body.append(assign(self._loaded[key], self._load(value.type)))
        return ast.Name(self._loaded[key], ast.Load())

    def _load(self, type: Tensor) -> ast.expr:
        return addresses.load(self._pointer(type.dtype), type.shape)

    def _pointer(self, dtype: str) -> str:
        return addresses.pointer(self._pointers, dtype)
