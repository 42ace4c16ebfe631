"""What an operator that refused its arguments wants of them, by the code that refused.

The frames of the error still hold their variables: the condition of the `assert` or `if` that ended
the call is taken apart, each part that does not hold is asked what would make it hold, and a
variable is followed back to the argument that it comes from: `K` to `k.shape[-1]`, a callee's
parameter to what its caller passed. Nothing is known of any package.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .following import DTYPE, GIVE, OBJECT, OMIT, SHAPE, TABLE, VALUE, Demand, Following, safely
from .refused_at import RefusedAt

# Of alternatives to one condition, and of the values that a set or a table offers.
_MOST, _MOST_VALUES = 16, 6
# What is made of a tensor with one element.
_NUMBERS = {"int": 1, "float": 1.0, "bool": True}
_NO_SCALAR = re.compile(r"one element tensors|converted to Scalar")
_NO_SEQUENCE = re.compile(r"has no len\(\)|is not iterable|must support iteration")
_LACKING = re.compile(r"missing \d+ required positional argument")
_NO_DIMENSION = re.compile(r"Dimension out of range")
_NO_SIZE = re.compile(r"must be tuple of ints")
_AN_EXTENT = 16
_HUGE = 1 << 16


def demands(error: BaseException, given: Mapping[str, Any]) -> list[Demand]:
    """The likeliest first; empty where the code tells nothing. `given` are all parameters of the
    call by name, those that it leaves out with their defaults."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        places.append(RefusedAt(trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    # What calls between the package's own functions, as autograd does, is passed over.
    places = [place for place in places if not place.is_librarys]
    for inner, outer in zip(places[1:], places):
        inner.caller = outer
    wanted: list[Demand] = []
    for place in reversed(places):
        if place.function is None:
            continue
        search = Conditions(given, place)
        wanted += itertools.islice(safely(search.of_error(error)), _MOST)
        if wanted:
            break
    unique = {demand.identity: demand for demand in wanted}
    return sorted(unique.values(), key=_is_huge)


def _is_huge(demand: Demand) -> bool:
    """Whether a tensor is to be longer than any is that somebody means: as long as another has
    elements, say."""
    return demand.kind == SHAPE and max(demand.value, default=0) > _HUGE


class Conditions(Following):
    """Takes an error and conditions at one place apart."""

    def of_error(self, error: BaseException) -> Iterator[Demand]:
        statement, tests = self._place.statement()
        if isinstance(statement, ast.Assert):
            yield from self.want(statement.test, True)
        elif isinstance(statement, ast.Raise):
            for test, was in tests:
                yield from self.want(test, not was)
        elif statement is not None:
            yield from self._of_operation(statement, error)

    def _of_operation(self, statement: ast.stmt, error: BaseException) -> Iterator[Demand]:
        text = str(error)
        if isinstance(error, TypeError) and _LACKING.search(text):
            yield from safely(self._lacking(statement, text))
            return
        head = statement
        if isinstance(statement, (ast.If, ast.While)):
            head = ast.Expr(statement.test)
        elif isinstance(statement, (ast.For, ast.With)):
            return
        if "oolean value of Tensor" in text:
            for name in _tested(head):
                if isinstance(self._place.names.get(name.id), torch.Tensor):
                    yield from self.change(name, False)
        for node in ast.walk(head):
            if isinstance(node, ast.Subscript) and isinstance(error, KeyError):
                yield from self._keys(node)
            elif isinstance(node, ast.Subscript) and isinstance(error, (TypeError, IndexError)):
                yield from safely(self._table(node))
            elif isinstance(node, ast.Attribute) and f"attribute '{node.attr}'" in text:
                yield from self._object(node)
            elif isinstance(node, ast.BinOp) and isinstance(error, ZeroDivisionError):
                yield from safely(self._divisor(node))
            elif isinstance(node, ast.Call) and _NO_SCALAR.search(text):
                yield from safely(self._scalar(node))
        if isinstance(error, IndexError) and _NO_DIMENSION.search(text):
            yield from safely(self._dimensions(head))
        if _NO_SEQUENCE.search(text):
            yield from safely(self._sequences(head))
        if _NO_SIZE.search(text):
            yield from safely(self._sizes(head))
        if isinstance(statement, ast.Assign) and "unpack" in text:
            yield from safely(self._unpacked(statement))
        if isinstance(error, (RuntimeError, IndexError, TypeError)):
            yield from self._operands(head)

    def _lacking(self, statement: ast.stmt, text: str) -> Iterator[Demand]:
        """A launch without arguments that the kernel needs: options that a table lacks, and strides
        or extents (`*x.stride()[2:]`) of a tensor of too few dimensions."""
        names = re.findall(r"'(\w+)'", text)
        for name, given in self._given.items():
            if isinstance(given, dict):
                yield Demand(TABLE, name, (*given, *names))
        for node in ast.walk(statement):
            if not isinstance(node, ast.Starred):
                continue
            part: ast.AST = node.value
            if isinstance(part, ast.Subscript):
                part = part.value
            if isinstance(part, ast.Call):
                part = part.func
            if isinstance(part, ast.Attribute) and part.attr in ("stride", "shape", "size"):
                tensor = self._place.value(part.value)
                yield from self._ranked(part.value, tensor.dim() + len(names))

    def _sequences(self, head: ast.AST) -> Iterator[Demand]:
        """`len(dim)`, `for d in dim` of one number: a sequence with that number."""
        for node in ast.walk(head):
            if isinstance(node, ast.Name):
                held = self._place.names.get(node.id)
                if isinstance(held, (int, float)) and not isinstance(held, bool):
                    yield from self._several(node, held, 1)

    def _sizes(self, head: ast.AST) -> Iterator[Demand]:
        """`torch.empty(shape)` of a tensor: two extents."""
        for node in ast.walk(head):
            if isinstance(node, ast.Name):
                held = self._place.names.get(node.id)
                if isinstance(held, torch.Tensor):
                    for name in self._arguments(node):
                        yield Demand(VALUE, name, _AN_EXTENT)
                        yield Demand(VALUE, name, (_AN_EXTENT, _AN_EXTENT))

    def _dimensions(self, head: ast.AST) -> Iterator[Demand]:
        """`x.stride(2)` of a tensor of one dimension: it has as many as are asked for."""
        asked: dict[str, tuple[ast.expr, int]] = {}
        for node in ast.walk(head):
            called = getattr(node, "func", None)
            if not isinstance(node, ast.Call) or not isinstance(called, ast.Attribute):
                continue
            if called.attr not in ("stride", "size") or len(node.args) != 1:
                continue
            index = self._place.value(node.args[0])
            if type(index) is int:
                name = ast.dump(called.value)
                rank = max(index + 1, -index, asked.get(name, (called.value, 0))[1])
                asked[name] = (called.value, rank)
        for tensor, rank in asked.values():
            if self._place.value(tensor).dim() < rank:
                yield from self._ranked(tensor, rank)

    def _divisor(self, node: ast.BinOp) -> Iterator[Demand]:
        """What was divided by is 0, as the quotient of two sizes is that do not go together."""
        divides = isinstance(node.op, (ast.FloorDiv, ast.Mod, ast.Div))
        if divides and self._place.value(node.right) == 0:
            yield from self.change(node.right, 1)

    def _scalar(self, node: ast.Call) -> Iterator[Demand]:
        """`float(x)` or `x.item()` of a tensor with several elements: a number."""
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        asked: ast.expr | None = None
        if called in _NUMBERS and len(node.args) == 1:
            asked = node.args[0]
        elif called == "item" and isinstance(node.func, ast.Attribute):
            asked = node.func.value
        if asked is not None and isinstance(self._place.value(asked), torch.Tensor):
            for name in self._arguments(asked):
                yield Demand(VALUE, name, _NUMBERS.get(called, 1))

    def _table(self, node: ast.Subscript) -> Iterator[Demand]:
        """`config["BLOCK"]` of what is no table: one with all that is looked up in it here. And
        `x.shape[2]` of a tensor that has too few dimensions, `sizes[1]` of what is one number."""
        held = self._place.value(node.value)
        if isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            yield from self._longer(node.value, held, node.slice.value + 1)
            return
        if not isinstance(held, (int, float, torch.Tensor)) or not isinstance(node.value, ast.Name):
            return
        keys = [
            part.slice.value
            for part in ast.walk(self._place.function or node)
            if isinstance(part, ast.Subscript)
            and getattr(part.value, "id", "") == node.value.id
            and isinstance(part.slice, ast.Constant)
        ]
        if keys and all(isinstance(key, str) for key in keys):
            for name in self._arguments(node.value):
                yield Demand(TABLE, name, tuple(dict.fromkeys(keys)))

    def _longer(self, node: ast.expr, held: Any, length: int) -> Iterator[Demand]:
        """An expression that is to have at least so many entries."""
        if isinstance(held, torch.Size):
            if len(held) < length:
                yield from self._rank_of(node, length)
        elif isinstance(held, (int, float)) and isinstance(node, ast.Name):
            asked = [length]
            for part in ast.walk(self._place.function or node):
                if isinstance(part, ast.Subscript) and getattr(part.value, "id", "") == node.id:
                    index = getattr(part.slice, "value", None)
                    if type(index) is int:
                        asked.append(index + 1)
            yield from self._several(node, held, max(asked))

    def _keys(self, node: ast.Subscript) -> Iterator[Demand]:
        """`TABLE[x.dtype]`: one of the table's keys."""
        table = self._place.value(node.value)
        if isinstance(table, Mapping):
            for key in list(table)[:_MOST_VALUES]:
                yield from self.change(node.slice, key)

    def _object(self, node: ast.Attribute) -> Iterator[Demand]:
        """`config.size` of a number that should have been an object."""
        held = self._place.value(node.value)
        if held is None or isinstance(held, (int, float, str, torch.Tensor)):
            for name in self._arguments(node.value):
                yield Demand(OBJECT, name, node.attr)

    def _unpacked(self, statement: ast.Assign) -> Iterator[Demand]:
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Tuple):
            return
        held = self._place.value(value)
        called = getattr(getattr(value, "func", None), "attr", "")
        if called == "stride":
            yield from self._rank_of(value, len(target.elts))
        elif isinstance(held, (tuple, list)) and held and not isinstance(held, torch.Size):
            yield from self._several(value, held[0], len(target.elts))
        elif isinstance(held, (int, float)):
            yield from self._several(value, held, len(target.elts))
        else:
            yield from self._rank_of(value, len(target.elts))

    def _operands(self, statement: ast.stmt) -> Iterator[Demand]:
        """Tensors that do not go together: each takes the others' shape, then their dtype."""
        names = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
        tensors = {n.id: n for n in names if isinstance(self._place.names.get(n.id), torch.Tensor)}
        for one, other in itertools.permutations(tensors, 2):
            mine, theirs = self._place.names[one], self._place.names[other]
            if mine.shape != theirs.shape:
                yield from self._shaped(tensors[one], tuple(theirs.shape))
            # Indices and what they point at stay what they are.
            alike = mine.dtype.is_floating_point == theirs.dtype.is_floating_point
            if mine.dtype != theirs.dtype and alike:
                for name in self._arguments(tensors[one]):
                    yield Demand(DTYPE, name, theirs.dtype)

    def want(self, test: ast.expr, truth: bool) -> Iterator[Demand]:
        """What makes a condition come out so, where it comes out otherwise now."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield from self.want(test.operand, not truth)
        elif isinstance(test, ast.BoolOp):
            for part in test.values:
                if bool(self._place.value(part)) != truth:
                    yield from safely(self.want(part, truth))
        elif isinstance(test, ast.Compare):
            yield from self._compared(test, truth)
        elif isinstance(test, ast.Call):
            yield from self._called(test, truth)
        elif isinstance(test, ast.Name):
            yield from self._named(test, truth)
        elif isinstance(test, ast.Attribute):
            yield from self.change(test, truth)
        elif isinstance(test, ast.BinOp) and not truth:
            # `if heads % groups: raise`
            yield from self.change(test, 0)

    def _named(self, test: ast.Name, truth: bool) -> Iterator[Demand]:
        assigned = self._assigned(test.id)
        if assigned is not None and not isinstance(assigned, tuple):
            yield from self.want(assigned, truth)
        elif isinstance(self._place.names.get(test.id), bool) or not truth:
            yield from self.change(test, truth)

    def _compared(self, test: ast.Compare, truth: bool) -> Iterator[Demand]:
        sides = [test.left, *test.comparators]
        for left, operation, right in zip(sides, test.ops, sides[1:]):
            pair = ast.Compare(left, [operation], [right])
            holds = bool(
                self._place.value(ast.copy_location(ast.fix_missing_locations(pair), test))
            )
            if holds != truth:
                yield from safely(self._pair(left, operation, right, truth))

    def _pair(
        self, left: ast.expr, operation: ast.cmpop, right: ast.expr, truth: bool
    ) -> Iterator[Demand]:
        equal = isinstance(operation, (ast.Eq, ast.Is)) == truth
        if isinstance(operation, (ast.Is, ast.IsNot)) and _is_none(right):
            kind = OMIT if equal else GIVE
            for name in self._arguments(left):
                yield Demand(kind, name)
        elif isinstance(operation, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
            if equal:
                yield from self._walked_alike(left, right)
                yield from self.change(left, self._place.value(right))
                yield from self.change(right, self._place.value(left))
            else:
                yield from self._unequal(left, right)
        elif isinstance(operation, (ast.In, ast.NotIn)):
            if isinstance(operation, ast.In) == truth:
                for value in list(self._place.value(right))[:_MOST_VALUES]:
                    yield from self.change(left, value)
        else:
            yield from self._ordered(left, operation, right, truth)

    def _unequal(self, left: ast.expr, right: ast.expr) -> Iterator[Demand]:
        """Two numbers that must not be the same: the left one is one more."""
        value = self._place.value(left)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from self.change(left, value + 1)

    def _walked_alike(self, left: ast.expr, right: ast.expr) -> Iterator[Demand]:
        """Two tensors with one stride in common have one shape: either takes the other's."""
        mine, theirs = self._strided(left), self._strided(right)
        if mine is not None and theirs is not None:
            yield from self._shaped(mine, tuple(self._place.value(theirs).shape))
            yield from self._shaped(theirs, tuple(self._place.value(mine).shape))

    def _strided(self, node: ast.expr) -> ast.expr | None:
        """The tensor whose stride an expression is."""
        if isinstance(node, ast.Name):
            assigned = self._assigned(node.id)
            if isinstance(assigned, ast.expr):
                node = assigned
        asked = getattr(node, "func", None)
        if isinstance(asked, ast.Attribute) and asked.attr == "stride":
            return asked.value
        return None

    def _ordered(
        self, left: ast.expr, operation: ast.cmpop, right: ast.expr, truth: bool
    ) -> Iterator[Demand]:
        mine, theirs = self._place.value(left), self._place.value(right)
        if not isinstance(mine, (int, float)) or not isinstance(theirs, (int, float)):
            return
        strict = isinstance(operation, (ast.Lt, ast.Gt)) == truth
        below = isinstance(operation, (ast.Lt, ast.LtE)) == truth
        step = int(strict) if below else -int(strict)
        yield from self.change(left, theirs - step)
        yield from self.change(right, mine + step)

    def _called(self, test: ast.Call, truth: bool) -> Iterator[Demand]:
        called = getattr(test.func, "id", getattr(test.func, "attr", ""))
        if called == "isinstance" and truth:
            kinds = self._place.value(test.args[1])
            for kind in kinds if isinstance(kinds, tuple) else (kinds,):
                yield from self._of_kind(test.args[0], kind)
        elif called in ("all", "any") and isinstance(
            test.args[0], (ast.GeneratorExp, ast.ListComp)
        ):
            yield from self._each(test.args[0], truth)
        elif called == "is_complex" and truth:
            asked = [
                *test.args,
                *([test.func.value] if isinstance(test.func, ast.Attribute) else ()),
            ]
            for name in itertools.chain.from_iterable(map(self._arguments, asked)):
                yield Demand(DTYPE, name, torch.complex64)

    def _of_kind(self, node: ast.expr, kind: Any) -> Iterator[Demand]:
        plain = {int: 64, float: 1.0, bool: True, str: "none", tuple: (1, 1), list: [1, 1]}
        for name in self._arguments(node):
            if kind in plain:
                yield Demand(VALUE, name, plain[kind])
            elif kind is torch.Tensor:
                yield Demand(GIVE, name)
            elif isinstance(kind, type):
                yield Demand(OBJECT, name, kind)

    def _each(self, every: ast.GeneratorExp | ast.ListComp, truth: bool) -> Iterator[Demand]:
        """`all(t.dtype == q.dtype for t in (k, v))`: the condition for each element."""
        loop = every.generators[0]
        elements = getattr(loop.iter, "elts", [])
        target = loop.target
        if not isinstance(target, ast.Name):
            return
        for element in elements:
            replaced = _Replaced(target.id, element).visit(_copied(every.elt))
            yield from safely(self.want(ast.fix_missing_locations(replaced), truth))


def _tested(statement: ast.AST) -> Iterator[ast.Name]:
    """The names whose truth a statement asks for."""
    for node in ast.walk(statement):
        tests: list[ast.expr] = []
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            tests = [node.test]
        elif isinstance(node, ast.BoolOp):
            tests = node.values
        elif isinstance(node, ast.UnaryOp):
            tests = [node.operand]
        elif isinstance(node, ast.Expr):
            tests = [node.value]
        yield from (test for test in tests if isinstance(test, ast.Name))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _copied(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


class _Replaced(ast.NodeTransformer):
    """An expression in the place of a name."""

    def __init__(self, name: str, by: ast.expr) -> None:
        self._name, self._by = name, by

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == self._name:
            return self._by
        return node
