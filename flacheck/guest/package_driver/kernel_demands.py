"""What a kernel wants of the arguments of the call that launched it, by the line at which Triton's
front end refused it. The values of that line are followed to the kernel's parameters, through the
kernels that it calls, and from what those were given to the call's own arguments: what is counted
with holds integers, what is returned on two ways is of one dtype, and strides are as many as the
indices beside them."""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .arguments import DTYPES
from .following import DTYPE, GIVE, SHAPE, VALUE, Demand
from .front_end import Refusal

# The values of a line are followed through so many assignments and calls.
_DEEPEST = 24
# Of the changes that one refusal suggests: each costs a call.
_MOST = 8
_LOADS = ("load", "atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg")
_CASTS = ("to", "cast")
# What makes numbers of its own.
_MAKERS = ("arange", "program_id", "num_programs", "zeros", "full", "cdiv", "constexpr")
_OF_TRUTHS = re.compile(r"unary invert|invalid operands .*int1|bool")
_MIXED = re.compile(
    r"nconsistent return|[Mm]ismatch|same dtype|initial type|re-assigned|[Bb]oth operands"
    r"|32 bit .offsets"
)
# Functions of mathematics: of fractions, and most of them in single precision.
_FRACTIONS = re.compile(
    r"Expected dtype \['fp32'|Expect one of .*float32|^\(triton\.language\.\w+,?\)$",
    re.DOTALL | re.MULTILINE,
)
_CARRIED = re.compile(r"Loop-carried variable (\w+) has initial type (?:<.*?, |pointer<)(\w+)>")
_BRANCHED = re.compile(r"Mismatched type for (\w+) between then block")
_BLOCKS = ("make_block_ptr", "advance", "make_tensor_descriptor")
_OPERANDS = re.compile(r"Got (\w+) and (\w+)")
_NOTHING = re.compile(r"'NoneType' object has no attribute")
_WITH_A_POINTER = re.compile(r"pointer<")
_LEADING = 2


@dataclass(frozen=True)
class _Origin:
    """A parameter that a value comes from, and whether the value was loaded from there."""

    name: str
    loaded: bool


@dataclass(frozen=True)
class _RefusedLine:
    """What a line's values come from, and how many are in the tuples that were written out where
    its function was called."""

    origins: list[_Origin]
    lengths: set[int]


def kernel_demands(refusal: Refusal, given: Mapping[str, Any]) -> list[Demand]:
    """The likeliest first; `given` are the arguments of the call by name."""
    try:
        refused = _refused(refusal.error)
    except (SyntaxError, RecursionError):
        return []
    wanted = _Wanted(refusal, given, _whole_text(refusal.error))
    unique = {each.identity: each for each in wanted.of(refused)}
    return list(unique.values())[:_MOST]


class _Wanted:
    def __init__(self, refusal: Refusal, given: Mapping[str, Any], text: str) -> None:
        self._arguments, self._given, self._text = refusal.arguments, given, text

    def of(self, refused: _RefusedLine) -> Iterator[Demand]:
        origins = refused.origins
        for origin in origins:
            held = self._arguments.get(origin.name)
            if isinstance(held, tuple):
                for length in refused.lengths:
                    yield from self._ranked(origin.name, held, length)
        if _FRACTIONS.search(self._text):
            for origin in origins:
                for name in self._passed(origin.name, self._held(origin)):
                    yield Demand(DTYPE, name, torch.float32)
            return
        carried = _CARRIED.search(self._text)
        if carried and carried[2].startswith("int"):
            # What is summed up in integers is made of small ones.
            for origin in origins:
                yield from self._in_dtypes(origin, (torch.int8, torch.int32))
            return
        if _NOTHING.search(self._text):
            for origin in origins:
                yield from self._given_nothing(origin.name)
            return
        if _MIXED.search(self._text):
            for origin in origins:
                yield from self._other_widths(origin)
            return
        for origin in origins:
            if origin.loaded or not _WITH_A_POINTER.search(self._text):
                yield from self._whole(origin)

    def _whole(self, origin: _Origin) -> Iterator[Demand]:
        """What is a fraction is to be an integer, or a truth."""
        held = self._held(origin)
        if isinstance(held, float):
            for name in self._passed(origin.name, held):
                yield Demand(VALUE, name, int(held) or 1)
        elif isinstance(held, torch.Tensor) and held.dtype.is_floating_point:
            dtypes = [torch.int32, torch.int64]
            if _OF_TRUTHS.search(self._text):
                dtypes.insert(0, torch.bool)
            yield from self._in_dtypes(origin, dtypes)

    def _in_dtypes(self, origin: _Origin, dtypes: Iterable[torch.dtype]) -> Iterator[Demand]:
        """Instead of fractions."""
        held = self._held(origin)
        if isinstance(held, torch.Tensor) and held.dtype.is_floating_point:
            for name in self._passed(origin.name, held):
                for dtype in dtypes:
                    yield Demand(DTYPE, name, dtype)

    def _held(self, origin: _Origin) -> Any:
        """What the kernel was given; of a descriptor its tensor."""
        held: Any = self._arguments.get(origin.name)
        if hasattr(held, "block_shape"):
            return held.base
        return held

    def _given_nothing(self, parameter: str) -> Iterator[Demand]:
        """What is left out and loaded from all the same is to be given."""
        if self._arguments.get(parameter) is not None:
            return
        lacking = [name for name, value in self._given.items() if value is None]
        lacking.sort(key=lambda name: -_alike(name, parameter))
        yield from (Demand(GIVE, name) for name in lacking[:1] if _alike(name, parameter))

    def _other_widths(self, origin: _Origin) -> Iterator[Demand]:
        held = self._held(origin)
        if not isinstance(held, torch.Tensor):
            return
        others = {torch.int64: [torch.int32], torch.int32: [torch.int64]}.get(held.dtype, [])
        if held.dtype.is_floating_point:
            met = _OPERANDS.search(self._text)
            # Triton prints `int8` where a signature says `i8`.
            named = [name.replace("int", "i") for name in (met.groups() if met else ())]
            others = [*(DTYPES[name] for name in named if name in DTYPES), torch.float32]
        for name in self._passed(origin.name, held):
            yield from (Demand(DTYPE, name, other) for other in others if other != held.dtype)

    def _ranked(self, parameter: str, held: tuple[Any, ...], length: int) -> Iterator[Demand]:
        """Strides or extents of too many or too few dimensions: those of a tensor of so many."""
        measured = [
            (name, tensor)
            for name, tensor in self._given.items()
            if isinstance(tensor, torch.Tensor)
            and held in (tuple(tensor.stride()), tuple(tensor.shape))
        ]
        measured.sort(key=lambda each: -_alike(each[0], parameter))
        missing = length - len(held)
        for name, tensor in measured:
            extents = tuple(tensor.shape)
            if missing > 0:
                yield Demand(SHAPE, name, (*extents, *(_LEADING,) * missing))
                yield Demand(SHAPE, name, (*(_LEADING,) * missing, *extents))
            elif missing < 0:
                yield Demand(SHAPE, name, extents[:missing])
                yield Demand(SHAPE, name, extents[-missing:])

    def _passed(self, parameter: str, held: Any) -> Iterator[str]:
        """The arguments of the call that became an argument of the kernel."""
        if not isinstance(held, torch.Tensor):
            yield from (name for name, value in self._given.items() if value is held)
            return
        tensors = {n: v for n, v in self._given.items() if isinstance(v, torch.Tensor)}
        same = [name for name, value in tensors.items() if _is_one_memory(value, held)]
        if not same:
            # The host made another one of it: it is called alike.
            same = [
                name
                for name, value in tensors.items()
                if value.dtype.is_floating_point and _alike(name, parameter) >= len(name)
            ]
        yield from same


def _whole_text(error: BaseException) -> str:
    """What the front end says at the innermost place, and what that was made from."""
    texts = []
    cause: BaseException | None = error
    while cause is not None:
        texts.append(str(getattr(cause, "error_message", cause)))
        cause = cause.__cause__
    return "\n".join(texts)


def _is_one_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one is other:
        return True
    try:
        return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return False


def _alike(name: str, parameter: str) -> int:
    """How much of two names is the same, from their beginnings."""
    pairs = zip(name.lower().replace("_", ""), parameter.lower().replace("_", ""))
    count = 0
    for mine, theirs in pairs:
        if mine != theirs:
            break
        count += 1
    return count + name.count("_") * (count > 0)


def _refused(error: BaseException) -> _RefusedLine:
    """The line of the innermost kernel, in terms of the outermost."""
    places = []
    cause: BaseException | None = error
    while cause is not None:
        source, node = getattr(cause, "src", None), getattr(cause, "node", None)
        if isinstance(source, str) and isinstance(node, ast.AST):
            places.append((_Flow(source), node))
        cause = cause.__cause__
    inner: dict[str, list[_Origin]] | None = None
    lengths: set[int] = set()
    for place, (flow, node) in enumerate(places):
        if place + 1 == len(places):
            text = _whole_text(error)
            # The loop or branch says which of its variables it is about.
            carried = _CARRIED.search(text) or _BRANCHED.search(text)
            if carried is not None:
                node = ast.Name(carried[1])
            return _RefusedLine(_through(inner, flow.of_statement(node)), lengths)
        callee = places[place + 1][0]
        call = _call_of(node, callee.name)
        if call is None:
            return _RefusedLine(_through(inner, flow.of_statement(node)), lengths)
        passed = [*zip(callee.parameters, call.args)]
        passed += [(each.arg, each.value) for each in call.keywords if each.arg]
        inner = {name: _through(inner, flow.of(value)) for name, value in passed}
        lengths = {len(value.elts) for _, value in passed if isinstance(value, ast.Tuple)}
    return _RefusedLine([], lengths)


def _through(outer: dict[str, list[_Origin]] | None, origins: list[_Origin]) -> list[_Origin]:
    """A callee's origins as those of the outermost kernel."""
    if outer is None:
        return origins
    return list(
        dict.fromkeys(
            _Origin(above.name, above.loaded or each.loaded)
            for each in origins
            for above in outer.get(each.name, ())
        )
    )


def _call_of(node: ast.AST, name: str) -> ast.Call | None:
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            called = getattr(part.func, "attr", getattr(part.func, "id", ""))
            if called == name:
                return part
    return None


class _Flow:
    """Where the values of one kernel's expressions come from."""

    def __init__(self, source: str) -> None:
        self.name, self.parameters, self._assigned, self._returned = _read(source)

    def of_statement(self, node: ast.AST) -> list[_Origin]:
        if isinstance(node, (ast.FunctionDef, ast.Return)):
            # What one way returns is refused for what another does.
            return self._all(self._returned)
        if isinstance(node, ast.For):
            return self.of(node.iter)
        if isinstance(node, (ast.If, ast.While)):
            return self.of(node.test)
        if isinstance(node, (ast.Assign, ast.Expr)):
            return self.of(node.value)
        if isinstance(node, ast.AugAssign):
            return self._all([node.target, node.value])
        if isinstance(node, ast.expr):
            return self.of(node)
        return []

    def of(self, node: ast.expr) -> list[_Origin]:
        return self._all([node])

    def _all(self, nodes: list[ast.expr]) -> list[_Origin]:
        seen: set[str] = set()
        found = [each for node in nodes for each in self._walk(node, False, seen, 0)]
        return list(dict.fromkeys(found))

    def _walk(self, node: ast.AST, loaded: bool, seen: set[str], depth: int) -> Iterator[_Origin]:
        if depth > _DEEPEST:
            return
        if isinstance(node, ast.Name):
            key = f"{node.id} {loaded}"
            if key in seen:
                return
            seen.add(key)
            if node.id in self.parameters:
                yield _Origin(node.id, loaded)
            for value in self._assigned.get(node.id, ()):
                yield from self._walk(value, loaded, seen, depth + 1)
        elif isinstance(node, ast.Call):
            yield from self._call(node, loaded, seen, depth)
        elif loaded and isinstance(node, ast.BinOp):
            # An address begins with its pointer; what it is moved on by has a dtype of its own.
            for part in (node.left, node.right):
                roots = [*self._walk(part, loaded, set(seen), depth + 1)]
                if roots:
                    yield from roots
                    return
        else:
            for child in ast.iter_child_nodes(node):
                yield from self._walk(child, loaded, seen, depth + 1)

    def _call(self, node: ast.Call, loaded: bool, seen: set[str], depth: int) -> Iterator[_Origin]:
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in _LOADS or (loaded and called in _BLOCKS):
            for address in self._addresses(node):
                yield from self._walk(address, True, seen, depth + 1)
            return
        if called in _MAKERS or (called in _CASTS and not loaded):
            return
        if isinstance(node.func, ast.Attribute):
            yield from self._walk(node.func.value, loaded, seen, depth + 1)
        for part in (*node.args, *(each.value for each in node.keywords)):
            yield from self._walk(part, loaded, seen, depth + 1)

    def _addresses(self, node: ast.Call) -> Iterator[ast.expr]:
        """Where a call loads from: `tl.load(x + i)`, `descriptor.load([i, j])`,
        `tl.make_block_ptr(base=x)`."""
        owner = getattr(node.func, "value", None)
        if isinstance(owner, ast.Name) and (
            owner.id in self.parameters or owner.id in self._assigned
        ):
            yield owner
            return
        yield from node.args[:1]
        yield from (each.value for each in node.keywords if each.arg == "base")


Read = tuple[str, list[str], dict[str, list[ast.expr]], list[ast.expr]]


@functools.cache
def _read(source: str) -> Read:
    """A kernel's name, its parameters, what its variables are given, and what it returns."""
    (function,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(function, ast.FunctionDef)
    parameters = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
    assigned: dict[str, list[ast.expr]] = {}
    returned: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            returned.append(node.value)
        for target, value in _pairs(node):
            assigned.setdefault(target, []).append(value)
    return function.name, parameters, assigned, returned


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement gives something, each with what it is given."""
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        value = node.iter if isinstance(node, ast.For) else node.value
        if value is not None and isinstance(node.target, ast.Name):
            yield node.target.id, value
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple):
            values = [node.value] * len(target.elts)
            if isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(values):
                values = node.value.elts
            for part, value in zip(target.elts, values):
                if isinstance(part, ast.Name):
                    yield part.id, value
