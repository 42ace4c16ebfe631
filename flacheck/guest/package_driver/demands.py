"""What an operator that refused its arguments wants of them, by the code that refused.

The frames of the error still hold their variables: the condition of the `assert` or `if` that ended
the call is taken apart, each part that does not hold is asked what would make it hold, and a
variable is followed back to the argument that it comes from: `K` to `k.shape[-1]`, a callee's
parameter to what its caller passed. Nothing is known of any package.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

SHAPE, DTYPE, VALUE, GIVE, OMIT, OBJECT, BUILD, TABLE, FIELD = range(9)
# Of alternatives to one condition, and of the values that a set or a table offers.
_MOST, _MOST_VALUES = 16, 6
# Variables, callers and parts of conditions are followed so far; code that refers to itself ends.
_DEEPEST = 12
# A small batch or count of heads before the dimensions of a tensor that has too few.
_LEADING = 2
# What is made of a tensor with one element.
_NUMBERS = {"int": 1, "float": 1.0, "bool": True}
_NO_SCALAR = re.compile(r"one element tensors|converted to Scalar")
_NO_SEQUENCE = re.compile(r"has no len\(\)|is not iterable|must support iteration")
_NO_SIZE = re.compile(r"must be tuple of ints")
_AN_EXTENT = 16
_LIBRARIES = ("torch", "triton", __name__.partition(".")[0])


@dataclass(frozen=True)
class Demand:
    """One change of one argument: a `kind` and what it is to be: a shape, a dtype, a value, the
    attribute that an object must have, a constructor's argument by name, or of an argument that is
    an object its class, a field and what that is to be."""

    kind: int
    name: str
    value: Any = None

    @property
    def identity(self) -> str:
        return f"{self.kind} {self.name} {self.value!r}"


def demands(error: BaseException, given: Mapping[str, Any]) -> list[Demand]:
    """The likeliest first; empty where the code tells nothing. `given` are all parameters of the
    call by name, those that it leaves out with their defaults."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        places.append(_Place(trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    # What calls between the package's own functions, as autograd does, is passed over.
    places = [place for place in places if not place.is_librarys]
    for inner, outer in zip(places[1:], places):
        inner.caller = outer
    wanted: list[Demand] = []
    for place in reversed(places):
        if place.function is None:
            continue
        search = _Search(given, place)
        wanted += itertools.islice(_safely(search.of_error(error)), _MOST)
        if wanted:
            break
    unique = {demand.identity: demand for demand in wanted}
    return list(unique.values())


def _safely(found: Iterator[Demand]) -> Iterator[Demand]:
    """Somebody else's expressions are evaluated, and may raise anything."""
    try:
        yield from found
    except Exception:
        return


class _Place:
    """A frame that the error went through, with its function's source."""

    def __init__(self, frame: FrameType, line: int) -> None:
        self.frame, self.line = frame, line
        self.caller: _Place | None = None
        self.names: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
        self.function, self.first = _source(frame.f_code)
        module = str(frame.f_globals.get("__name__", ""))
        self.is_librarys = module.partition(".")[0] in _LIBRARIES

    def statement(self) -> tuple[ast.stmt | None, list[tuple[ast.expr, bool]]]:
        """The innermost statement at the line, with the tests of the branches around it and whether
        each was true, the innermost first."""
        found: ast.stmt | None = None
        tests: list[tuple[ast.expr, bool]] = []
        body: list[ast.stmt] = getattr(self.function, "body", [])
        line = self.line - self.first + 1
        while True:
            here = next((s for s in body if s.lineno <= line <= (s.end_lineno or s.lineno)), None)
            if here is None:
                return found, tests
            found, body = here, []
            for name in ("body", "orelse", "finalbody", "handlers"):
                block = getattr(here, name, [])
                if block and block[0].lineno <= line <= (block[-1].end_lineno or 0):
                    body = block
                    if isinstance(here, ast.If):
                        tests.insert(0, (here.test, name == "body"))

    def is_called_whole(self) -> bool:
        """Whether the function was called with the arguments of the call as they are: by us, or by
        wrappers that hand on all that they get (`function(*args, **kwargs)`)."""
        place = self
        while place.caller is not None:
            place = place.caller
            statement, _ = place.statement()
            calls = [n for n in ast.walk(statement or ast.Pass()) if isinstance(n, ast.Call)]
            if not any(each.arg is None for call in calls for each in call.keywords):
                return False
        return True

    def value(self, node: ast.expr) -> Any:
        code = compile(ast.Expression(node), "<demand>", "eval")
        return eval(code, self.frame.f_globals, self.names)


@functools.cache
def _source(code: Any) -> tuple[ast.stmt | None, int]:
    """A function's syntax tree and its first line."""
    try:
        lines, first = inspect.getsourcelines(code)
        return ast.parse(textwrap.dedent("".join(lines))).body[0], first
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None, 0


class _Search:
    """Follows conditions of one place to arguments of the call."""

    def __init__(self, given: Mapping[str, Any], place: _Place, depth: int = 0) -> None:
        self._given, self._place, self._depth = given, place, depth

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
                yield from _safely(self._table(node))
            elif isinstance(node, ast.Attribute) and f"attribute '{node.attr}'" in text:
                yield from self._object(node)
            elif isinstance(node, ast.BinOp) and isinstance(error, ZeroDivisionError):
                yield from _safely(self._divisor(node))
            elif isinstance(node, ast.Call) and _NO_SCALAR.search(text):
                yield from _safely(self._scalar(node))
        if _NO_SEQUENCE.search(text):
            yield from _safely(self._sequences(head))
        if _NO_SIZE.search(text):
            yield from _safely(self._sizes(head))
        if isinstance(statement, ast.Assign) and "unpack" in text:
            yield from _safely(self._unpacked(statement))
        if isinstance(error, (RuntimeError, IndexError, TypeError)):
            yield from self._operands(head)

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

    def _several(self, node: ast.expr, one: Any, length: int) -> Iterator[Demand]:
        """So many of the number that an argument is now."""
        for name in self._arguments(node):
            yield Demand(VALUE, name, (one,) * length)

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
        if isinstance(held, (tuple, list)) and held and not isinstance(held, torch.Size):
            yield from self._several(value, held[0], len(target.elts))
        elif isinstance(held, (int, float)):
            yield from self._several(value, held, len(target.elts))
        else:
            yield from self._rank_of(value, len(target.elts))

    def _rank_of(self, value: ast.expr, rank: int) -> Iterator[Demand]:
        """`x.shape` or `x.size()` is to have so many entries."""
        if isinstance(value, ast.Call):
            value = value.func
        if isinstance(value, ast.Attribute) and value.attr in ("shape", "size"):
            yield from self._ranked(value.value, rank)

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
                    yield from _safely(self.want(part, truth))
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
                yield from _safely(self._pair(left, operation, right, truth))

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
        elif isinstance(operation, (ast.In, ast.NotIn)):
            if isinstance(operation, ast.In) == truth:
                for value in list(self._place.value(right))[:_MOST_VALUES]:
                    yield from self.change(left, value)
        else:
            yield from self._ordered(left, operation, right, truth)

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
        elif called in ("is_floating_point", "is_contiguous") or not test.args:
            return

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
            yield from _safely(self.want(ast.fix_missing_locations(replaced), truth))

    def change(self, node: ast.expr, value: Any) -> Iterator[Demand]:
        """What makes an expression worth a value."""
        if self._depth > _DEEPEST:
            return
        self._depth += 1
        try:
            yield from _safely(self._changed(node, value))
        finally:
            self._depth -= 1

    def _changed(self, node: ast.expr, value: Any) -> Iterator[Demand]:
        if isinstance(node, ast.Name):
            yield from self._name(node, value)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node, value)
        elif isinstance(node, ast.Subscript):
            yield from self._entry(node, value)
        elif isinstance(node, ast.Call):
            yield from self._call(node, value)
        elif isinstance(node, ast.BinOp):
            yield from self._arithmetic(node, value)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for part, wanted in zip(node.elts, value):
                if self._place.value(part) != wanted:
                    yield from self.change(part, wanted)

    def _name(self, node: ast.Name, value: Any) -> Iterator[Demand]:
        held = self._place.names.get(node.id)
        assigned = self._assigned(node.id)
        if isinstance(assigned, tuple):
            whole, index = assigned
            yield from self._dimension(whole, index, value)
        elif assigned is not None:
            yield from self.change(assigned, value)
        elif self._is_parameter(node.id) and not isinstance(held, torch.Tensor):
            for name in self._arguments(node):
                yield Demand(VALUE, name, value)
            yield from self._callers(node.id, lambda search, passed: search.change(passed, value))
        elif isinstance(held, torch.Tensor):
            for name in self._arguments(node):
                yield Demand(VALUE, name, value)

    def _attribute(self, node: ast.Attribute, value: Any) -> Iterator[Demand]:
        if node.attr == "shape":
            yield from self._shaped(node.value, tuple(value))
        elif node.attr == "dtype" and isinstance(value, torch.dtype):
            for name in self._arguments(node.value):
                yield Demand(DTYPE, name, value)
        elif node.attr == "ndim":
            yield from self._ranked(node.value, value)
        elif isinstance(node.value, ast.Name):
            held = self._place.names.get(node.value.id)
            fields = [
                Demand(FIELD, name, (type(held), node.attr, value))
                for name, given in self._given.items()
                if given is held and held is not None
            ]
            if fields:
                yield from fields
            elif node.value.id == "self":
                yield Demand(BUILD, node.attr, value)

    def _entry(self, node: ast.Subscript, value: Any) -> Iterator[Demand]:
        """`x.shape[1]`, `x.shape[:2]`."""
        if isinstance(node.slice, ast.Slice):
            tensor, shape = self._measured(node.value)
            if tensor is None:
                return
            whole = list(shape)
            bounds: list[Any] = [
                part and self._place.value(part) for part in (node.slice.lower, node.slice.upper)
            ]
            place = slice(*bounds)
            whole[place] = tuple(value)
            yield from self._shaped(tensor, tuple(whole))
        else:
            yield from self._dimension(node.value, self._place.value(node.slice), value)

    def _dimension(self, whole: ast.expr, index: int, value: Any) -> Iterator[Demand]:
        tensor, shape = self._measured(whole)
        if tensor is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        if -len(shape) <= index < len(shape) and 0 < value < 1 << 20:
            changed = list(shape)
            changed[index] = int(value)
            yield from self._shaped(tensor, tuple(changed))

    def _measured(self, node: ast.expr) -> tuple[ast.expr | None, tuple[int, ...]]:
        """The tensor of `x.shape` or `x.size()`, and its shape."""
        if isinstance(node, ast.Call) and not node.args:
            node = node.func
        if isinstance(node, ast.Name):
            assigned = self._assigned(node.id)
            if isinstance(assigned, ast.expr):
                return self._measured(assigned)
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "size"):
            return node.value, tuple(self._place.value(node.value).shape)
        return None, ()

    def _call(self, node: ast.Call, value: Any) -> Iterator[Demand]:
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        method = isinstance(node.func, ast.Attribute)
        if method and called == "size" and node.args:
            measured = ast.Attribute(node.func.value, "shape", ast.Load())  # type: ignore[attr-defined]
            yield from self._dimension(measured, self._place.value(node.args[0]), value)
        elif method and called == "size":
            yield from self._shaped(node.func.value, tuple(value))  # type: ignore[attr-defined]
        elif method and called in ("dim", "ndimension"):
            yield from self._ranked(node.func.value, value)  # type: ignore[attr-defined]
        elif method and called == "stride" and node.args and value == 1:
            # Of a contiguous tensor only the last one is: it must be the last.
            index = self._place.value(node.args[0])
            yield from self._ranked(node.func.value, index + 1)  # type: ignore[attr-defined]
        elif called == "len" and node.args:
            held = self._place.value(node.args[0])
            if isinstance(held, (tuple, list)) and held and not isinstance(held, torch.Size):
                yield from self._several(node.args[0], held[0], value)
            else:
                yield from self._rank_of(node.args[0], value)
        elif called in ("int", "min", "max", "tuple", "list", "Size", "float") and node.args:
            for given in node.args:
                yield from self.change(given, value)

    def _arithmetic(self, node: ast.BinOp, value: Any) -> Iterator[Demand]:
        left, right = self._place.value(node.left), self._place.value(node.right)
        if isinstance(node.op, ast.Mult):
            for part, other in ((node.left, right), (node.right, left)):
                if other and value % other == 0:
                    yield from self.change(part, value // other)
        elif isinstance(node.op, ast.Add):
            yield from self.change(node.left, value - right)
            yield from self.change(node.right, value - left)
        elif isinstance(node.op, ast.Sub):
            yield from self.change(node.left, value + right)
        elif isinstance(node.op, ast.FloorDiv):
            yield from self.change(node.left, value * right)
            if value:
                yield from self.change(node.right, left // value)
        elif isinstance(node.op, ast.Mod) and value == 0:
            yield from self.change(node.left, -(-left // right) * right)
            yield from self.change(node.right, left)
        elif isinstance(node.op, ast.BitAnd) and value == 0:
            yield from self.change(node.left, 1 << (int(left) - 1).bit_length())

    def _shaped(self, tensor: ast.expr, shape: tuple[int, ...]) -> Iterator[Demand]:
        for name in self._arguments(tensor):
            yield Demand(SHAPE, name, shape)

    def _ranked(self, tensor: ast.expr, rank: Any) -> Iterator[Demand]:
        """The tensor with so many dimensions: leading ones joined or dropped, or put before."""
        shape = tuple(self._place.value(tensor).shape)
        if type(rank) is not int or rank < 0 or rank == len(shape):
            return
        if rank > len(shape):
            yield from self._shaped(tensor, (*(_LEADING,) * (rank - len(shape)), *shape))
            return
        surplus = len(shape) - rank
        joined = 1
        for extent in shape[: surplus + 1]:
            joined *= extent
        if rank:
            yield from self._shaped(tensor, (joined, *shape[surplus + 1 :]))
        yield from self._shaped(tensor, shape[surplus:])

    def _arguments(self, node: ast.expr) -> Iterator[str]:
        """The arguments of the call that an expression is, perhaps in another form."""
        if not isinstance(node, ast.Name):
            inner = getattr(node, "func", node)
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.expr):
                # `x.contiguous()`, `x.T`: what is asked of it holds of `x` as well.
                yield from self._arguments(inner.value)
            return
        held = self._place.names.get(node.id)
        same = [name for name, value in self._given.items() if value is held]
        if isinstance(held, torch.Tensor) and same:
            yield same[0]
            return
        if node.id in self._given and self._place.is_called_whole():
            yield node.id
            return
        assigned = self._assigned(node.id)
        if isinstance(assigned, ast.expr) and self._depth < _DEEPEST:
            self._depth += 1
            yield from self._arguments(assigned)
            self._depth -= 1
        elif self._is_parameter(node.id):
            yield from self._callers(node.id, lambda search, passed: search._arguments(passed))

    def _is_parameter(self, name: str) -> bool:
        code = self._place.frame.f_code
        return name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def _callers(self, name: str, ask: Any) -> Iterator[Any]:
        """What the caller's expression for a parameter comes from."""
        caller = self._place.caller
        if caller is None or caller.function is None or self._depth > _DEEPEST:
            return
        statement, _ = caller.statement()
        code = self._place.frame.f_code
        names = code.co_varnames[: code.co_argcount]
        for call in ast.walk(statement) if statement is not None else ():
            if not isinstance(call, ast.Call):
                continue
            called = getattr(call.func, "id", getattr(call.func, "attr", ""))
            skipped = 0
            if names[:1] == ("self",) or (called == "apply" and names[:1] == ("ctx",)):
                skipped = 1
            elif called != code.co_name:
                continue
            passed = dict(zip(names[skipped:], call.args))
            passed |= {each.arg: each.value for each in call.keywords if each.arg}
            if name in passed and not isinstance(passed[name], ast.Starred):
                yield from ask(_Search(self._given, caller, self._depth + 1), passed[name])

    def _assigned(self, name: str) -> ast.expr | tuple[ast.expr, int] | None:
        """The expression that a variable was last given before the line, or the whole that it was
        unpacked from and its place there."""
        found: ast.expr | tuple[ast.expr, int] | None = None
        function, place = self._place.function, self._place
        for node in ast.walk(function) if function is not None else ():
            if not isinstance(node, ast.Assign) or node.lineno + place.first - 1 >= place.line:
                continue
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    if not _mentions(node.value, name):
                        found = node.value
                elif isinstance(target, ast.Tuple):
                    found = _part(target, node.value, name) or found
        return found


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


def _part(target: ast.Tuple, value: ast.expr, name: str) -> ast.expr | tuple[ast.expr, int] | None:
    for index, each in enumerate(target.elts):
        if isinstance(each, ast.Name) and each.id == name:
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                return value.elts[index]
            return value, index
    return None


def _mentions(node: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


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
