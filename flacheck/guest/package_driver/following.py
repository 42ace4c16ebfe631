"""Follows an expression of code that refused its arguments back to the call's own: `K` to
`k.shape[-1]`, a callee's parameter to what its caller passed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .refused_at import RefusedAt

SHAPE, DTYPE, VALUE, GIVE, OMIT, OBJECT, BUILD, TABLE, FIELD = range(9)
# Variables, callers and parts of conditions are followed so far; code that refers to itself ends.
DEEPEST = 12
# A small batch or count of heads before the dimensions of a tensor that has too few.
_LEADING = 2


# Dtypes whose elements have so many bytes.
_BY_SIZE = {
    1: (torch.uint8, torch.float8_e4m3fn),
    2: (torch.bfloat16,),
    4: (torch.float32,),
}


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


def safely(found: Iterator[Demand]) -> Iterator[Demand]:
    """Somebody else's expressions are evaluated, and may raise anything."""
    try:
        yield from found
    except Exception:
        return


class Following:
    """Says how arguments of the call make an expression at one place worth a value."""

    def __init__(self, given: Mapping[str, Any], place: RefusedAt, depth: int = 0) -> None:
        self._given, self._place, self._depth = given, place, depth

    def change(self, node: ast.expr, value: Any) -> Iterator[Demand]:
        """What makes an expression worth a value."""
        if self._depth > DEEPEST:
            return
        self._depth += 1
        try:
            yield from safely(self._changed(node, value))
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
                if given is held and held is not None and not isinstance(held, torch.Tensor)
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
        elif method and called == "element_size" and value in _BY_SIZE:
            for name in self._arguments(node.func.value):  # type: ignore[attr-defined]
                yield from (Demand(DTYPE, name, dtype) for dtype in _BY_SIZE[value])
        elif method and called == "numel":
            whole = tuple(self._place.value(node.func.value).shape)  # type: ignore[attr-defined]
            for extents in ((int(value),), *_multiplied(whole, int(value))):
                yield from self._shaped(node.func.value, extents)  # type: ignore[attr-defined]
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
        elif called == "prod" and node.args:
            for extents in _multiplied(tuple(self._place.value(node.args[0])), value):
                yield from self.change(node.args[0], extents)
        elif called == "cdiv" and len(node.args) > 1:
            yield from self.change(node.args[0], value * self._place.value(node.args[1]))
        elif called == "next_power_of_2" and node.args:
            yield from self.change(node.args[0], value)
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
        if isinstance(node, ast.Subscript):
            # `x[0]` of several tensors: what is asked of one holds of all.
            yield from self._of_several(node.value)
            return
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
        if isinstance(assigned, ast.expr) and self._depth < DEEPEST:
            self._depth += 1
            yield from self._arguments(assigned)
            self._depth -= 1
        elif self._is_parameter(node.id):
            yield from self._callers(node.id, lambda search, passed: search._arguments(passed))

    def _of_several(self, node: ast.expr) -> Iterator[str]:
        whole = self._place.names.get(getattr(node, "id", ""))
        if not isinstance(whole, (list, tuple)) or not isinstance(
            next(iter(whole), 0), torch.Tensor
        ):
            return
        for name, value in self._given.items():
            if isinstance(value, (list, tuple)) and next(iter(value), None) is whole[0]:
                yield name

    def _is_parameter(self, name: str) -> bool:
        code = self._place.frame.f_code
        return name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def _callers(self, name: str, ask: Any) -> Iterator[Any]:
        """What the caller's expression for a parameter comes from."""
        caller = self._place.caller
        if caller is None or caller.function is None or self._depth > DEEPEST:
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
                yield from ask(type(self)(self._given, caller, self._depth + 1), passed[name])

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
                    part = _part(target, node.value, name)
                    # `x, y = x.contiguous(), y.contiguous()` is what it was.
                    if not isinstance(part, ast.expr) or not _mentions(part, name):
                        found = part or found
        return found

    def _several(self, node: ast.expr, one: Any, length: int) -> Iterator[Demand]:
        """So many of the number that an argument is now."""
        for name in self._arguments(node):
            yield Demand(VALUE, name, (one,) * length)

    def _rank_of(self, value: ast.expr, rank: int) -> Iterator[Demand]:
        """`x.shape`, `x.size()` or `x.stride()` is to have so many entries."""
        if isinstance(value, ast.Call):
            value = value.func
        if isinstance(value, ast.Attribute) and value.attr in ("shape", "size", "stride"):
            yield from self._ranked(value.value, rank)


def _multiplied(extents: tuple[int, ...], product: int) -> Iterator[tuple[int, ...]]:
    """Extents of which the last was changed, so that they come to a product or a little more; where
    the others alone come to more, they are 1."""
    if not extents or 0 in extents or product <= 0:
        return
    others = 1
    for extent in extents[:-1]:
        others *= extent
    if others <= product:
        yield (*extents[:-1], -(-product // others))
    yield (*(1 for _ in extents[:-1]), product)


def _part(target: ast.Tuple, value: ast.expr, name: str) -> ast.expr | tuple[ast.expr, int] | None:
    for index, each in enumerate(target.elts):
        if isinstance(each, ast.Name) and each.id == name:
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                return value.elts[index]
            return value, index
    return None


def _mentions(node: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))
