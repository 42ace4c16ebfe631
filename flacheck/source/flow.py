"""Interpretation of a definition's statements in order: the names it uses at a sequence length.

Both branches of a test are followed if the source does not decide it. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flacheck.guest.pysource.functions import dotted_name
from flacheck.source import syntax
from flacheck.source.values import UNKNOWN, arms, value

MODE = "mode"
TRAINING = "self.training"
# How layers name the length of their input.
_LENGTH_NAME = re.compile(r"[TL]|\w*len(gth)?")
# How a block of statements ends.
_GOES_ON, _RETURNS, _RAISES = "goes on", "returns", "raises"
# The known values of variables and attributes at a statement.
_Values = dict[str, Any]


@dataclass(frozen=True)
class State:
    """The state in which a layer is examined.

    `training` is True in training mode; `plain` is True for a layer that was built with its
    constructor's defaults, False for any other configuration.
    """

    length: int
    training: bool
    plain: bool


def uses(node: ast.AST, state: State) -> set[str]:
    """Return the names used in a state; none for a class whose `forward` always raises there."""
    walk = _Walk(state)
    if isinstance(node, ast.ClassDef):
        ends = _walk_class(node, walk)
        if ends.get("forward") == _RAISES:
            return set()
    elif isinstance(node, syntax.FUNCTION):
        walk.function(node, {})
    else:
        return all_names(node)
    return walk.names


def all_names(node: ast.AST) -> set[str]:
    """Return every dotted name that some branch of a node evaluates."""
    return {str(dotted_name(part)) for part in syntax.dotted_parts(node)}


def limit(node: ast.AST) -> int | None:
    """Return the constant that a node compares with a sequence length, else None."""
    match node:
        case ast.Compare(side, [_], [ast.Constant(bound)]) if is_length(side):
            pass
        case ast.Compare(ast.Constant(bound), [_], [side]) if is_length(side):
            pass
        case _:
            return None
    # bool is a subclass of int.
    if type(bound) is int:
        return bound
    return None


def is_length(node: ast.AST) -> bool:
    """Return True for the length of the axis after the batch.

    Examples: `q_len`, `T`, `x.shape[1]`, `x.shape[-2]`, `x.size(1)`.
    """
    match node:
        case ast.Name(name):
            return bool(_LENGTH_NAME.fullmatch(name))
        case ast.Subscript(ast.Attribute(attr="shape"), axis):
            return ast.unparse(axis) in ("1", "-2")
        case ast.Call(ast.Attribute(attr="size"), [axis]):
            return ast.unparse(axis) in ("1", "-2")
    return False


def sets_mode(node: ast.stmt) -> bool:
    """Return True for a statement that assigns the name `mode`."""
    return any(dotted_name(target) == MODE for target in syntax.targets(node))


def chooses_mode(node: ast.If) -> bool:
    """Return True if a branch of an `if` assigns `mode` directly."""
    statements = [*node.body, *node.orelse]
    return any(map(sets_mode, statements))


def _walk_class(node: ast.ClassDef, walk: _Walk) -> dict[str, str]:
    """Return how each method ends; values that only the constructor stores are constants in it."""
    methods: dict[str, syntax.Function] = {}
    for item in node.body:
        if isinstance(item, syntax.FUNCTION):
            methods[item.name] = item
    for part in syntax.evaluated_parts(node):
        if not isinstance(part, syntax.FUNCTION):
            walk.use(part, values={})
    constructor = methods.pop("__init__", None)
    constants: _Values = {}
    if constructor and walk.state.plain:
        constants = _constants(constructor, methods.values(), walk)
    elif constructor:
        walk.function(constructor, {})
    ends = {}
    for name, method in methods.items():
        _, ends[name] = walk.function(method, constants)
    return ends


def _constants(
    constructor: syntax.Function, methods: Iterable[syntax.Function], walk: _Walk
) -> _Values:
    """Return the attributes that a constructor sets by its defaults and no method changes."""
    defaults: _Values = {}
    for name, default in syntax.defaults(constructor.args).items():
        if isinstance(default, ast.Constant):
            defaults[name] = default.value
    after, _ = walk.function(constructor, defaults)
    variable = syntax.stored_names(*methods)
    constants = {}
    for name, held in after.items():
        if name.startswith("self.") and name not in variable:
            constants[name] = held
    return constants


@dataclass
class _Walk:
    """A walk through statements in one state; `names` collects the names on every path."""

    state: State
    names: set[str] = field(default_factory=set)

    def function(self, node: syntax.Function, values: _Values) -> tuple[_Values, str]:
        """Return the values after a function's body, and how it ends."""
        self.use(*node.decorator_list, node.args, values=values)
        return self.block(node.body, values)

    def block(self, body: Iterable[ast.stmt], values: _Values) -> tuple[_Values, str]:
        """Return the values after a block of statements, and how it ends."""
        for statement in body:
            values, end = self._step(statement, values)
            if end != _GOES_ON:
                return values, end
        return values, _GOES_ON

    def use(self, *nodes: ast.AST, values: _Values) -> None:
        """Collect the names in some nodes, less the arm of a conditional that is not taken."""
        todo = list(nodes)
        lookup = partial(self._lookup, values, False)
        while todo:
            node = todo.pop()
            name = dotted_name(node)
            if name:
                self.names.add(name)
            elif isinstance(node, ast.IfExp):
                todo.append(node.test)
                todo += arms(node, lookup)
            else:
                todo += syntax.evaluated_parts(node)

    def _step(self, node: ast.stmt, values: _Values) -> tuple[_Values, str]:
        match node:
            case ast.If():
                return self._if(node, values)
            case ast.With() | ast.AsyncWith():
                self.use(*node.items, values=values)
                inside = _without(values, syntax.stored_names(*node.items))
                return self.block(node.body, inside)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                # Its names count as used; a `mode` that it assigns is local to it.
                self.names |= uses(node, self.state)
                return values, _GOES_ON
        if any(syntax.inner_blocks(node)):
            return self._blocks(node, values), _GOES_ON
        self.use(node, values=values)
        if isinstance(node, ast.Return):
            return values, _RETURNS
        if isinstance(node, ast.Raise):
            return values, _RAISES
        if isinstance(node, ast.Assert):
            truth = self._value(node.test, values)
            if truth is not UNKNOWN and not truth:
                return values, _RAISES
        return self._assign(node, values), _GOES_ON

    def _if(self, node: ast.If, values: _Values) -> tuple[_Values, str]:
        truth = self._value(node.test, values, sets_mode=chooses_mode(node))
        self.use(node.test, values=values)
        if truth is UNKNOWN:
            # Both branches begin with the values before the `if`.
            body = self.block(node.body, values)
            orelse = self.block(node.orelse, values)
            return _join(body, orelse)
        if truth:
            return self.block(node.body, values)
        return self.block(node.orelse, values)

    def _blocks(self, node: ast.stmt, values: _Values) -> _Values:
        """Walk the blocks of a loop, `try` or `match`.

        Each block may run or not, more than once, or in part.
        """
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.use(child, values=values)
        # A later iteration of a loop reads the assignments of an earlier one.
        variable = syntax.stored_names(node)
        values = _without(values, variable)
        for block in syntax.inner_blocks(node):
            after, end = self.block(block, values)
            values, _ = _join((values, _GOES_ON), (_without(after, variable), end))
        return values

    def _assign(self, node: ast.stmt, values: _Values) -> _Values:
        names: set[str] = set()
        changes: set[str] = set()
        for target in syntax.targets(node):
            name = dotted_name(target)
            if name:
                names.add(name)
            else:
                changes |= syntax.stored_names(target)
        after = _without(values, names | changes)
        expression = getattr(node, "value", None)
        if names and expression and not isinstance(node, ast.AugAssign):
            result = self._value(expression, values, sets_mode=sets_mode(node))
            if result is not UNKNOWN:
                after.update(dict.fromkeys(names, result))
        return after

    def _value(self, node: ast.expr, values: _Values, sets_mode: bool = False) -> Any:
        """Return the value of an expression here.

        A length has a value only in an expression that `sets_mode`: elsewhere the second axis of a
        tensor need not be the sequence.
        """
        return value(node, partial(self._lookup, values, sets_mode))

    def _lookup(self, values: _Values, sets_mode: bool, node: ast.AST) -> Any:
        if sets_mode and limit(node) is not None:
            return value(node, self._length)
        name = dotted_name(node)
        if name == TRAINING:
            return self.state.training
        return values.get(name or "", UNKNOWN)

    def _length(self, node: ast.AST) -> Any:
        if is_length(node):
            return self.state.length
        return UNKNOWN


def _without(values: _Values, names: Iterable[str]) -> _Values:
    rest = dict(values)
    for name in names:
        rest.pop(name, None)
    return rest


def _join(one: tuple[_Values, str], other: tuple[_Values, str]) -> tuple[_Values, str]:
    """Join two branches: keep the values that are equal in each branch that does not return."""
    values, end = one
    other_values, other_end = other
    if end == other_end == _RAISES:
        return values, _RAISES
    if end != _GOES_ON and other_end != _GOES_ON:
        return values, _RETURNS
    if end != _GOES_ON:
        return other_values, _GOES_ON
    if other_end != _GOES_ON:
        return values, _GOES_ON
    common = {}
    for name, held in values.items():
        if other_values.get(name, UNKNOWN) == held:
            common[name] = held
    return common, _GOES_ON
