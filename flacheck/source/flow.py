"""Follows the statements of a definition in order: which names it uses at a sequence length.

A test whose outcome the source does not give may go both ways. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flacheck.source import syntax
from flacheck.source.values import UNKNOWN, arms, value

MODE = "mode"
TRAINING = "self.training"
# How layers name the length of their input.
_LENGTH_NAME = re.compile(r"[TL]|\w*len(gth)?")
_GOES_ON, _RETURNS, _RAISES = "goes on", "returns", "raises"
# The variables and attributes whose values are known at a statement.
_Known = dict[str, Any]


@dataclass(frozen=True)
class State:
    """The question asked of a layer: a sequence length, whether it trains, and whether it is
    `plain`, built with its constructor's defaults, or configured in whatever way."""

    length: int
    training: bool
    plain: bool


def uses(node: ast.AST, state: State) -> set[str]:
    """The names used in a state; none for a class whose `forward` can only raise there."""
    walk = _Walk(state)
    if isinstance(node, ast.ClassDef):
        ends = _walk_class(node, walk)
        if ends.get("forward") == _RAISES:
            return set()
    elif isinstance(node, syntax.FUNCTION):
        walk.function(node, {})
    else:
        return all_names(node)
    return walk.used


def all_names(node: ast.AST) -> set[str]:
    """Every dotted name that is evaluated in a node, in whatever branch."""
    return {str(syntax.dotted_name(part)) for part in syntax.dotted_parts(node)}


def limit(node: ast.AST) -> int | None:
    """The constant that a comparison holds against a sequence length, None for any other node."""
    match node:
        case ast.Compare(side, [_], [ast.Constant(bound)]) if is_length(side):
            pass
        case ast.Compare(ast.Constant(bound), [_], [side]) if is_length(side):
            pass
        case _:
            return None
    # A truth value is an int to Python.
    if type(bound) is int:
        return bound
    return None


def is_length(node: ast.AST) -> bool:
    """`q_len`, `T`, `x.shape[1]`, `x.shape[-2]`, `x.size(1)`: the axis after the batch."""
    match node:
        case ast.Name(name):
            return bool(_LENGTH_NAME.fullmatch(name))
        case ast.Subscript(ast.Attribute(attr="shape"), axis):
            return ast.unparse(axis) in ("1", "-2")
        case ast.Call(ast.Attribute(attr="size"), [axis]):
            return ast.unparse(axis) in ("1", "-2")
    return False


def sets_mode(node: ast.stmt) -> bool:
    """Whether a statement assigns the name `mode`."""
    return any(syntax.dotted_name(target) == MODE for target in syntax.targets(node))


def chooses_mode(node: ast.If) -> bool:
    """Whether a branch of an `if` assigns `mode` directly."""
    return any(sets_mode(statement) for statement in (*node.body, *node.orelse))


def _walk_class(node: ast.ClassDef, walk: _Walk) -> dict[str, str]:
    """How each method ends; a plain object's know what its constructor alone stores."""
    methods = {item.name: item for item in node.body if isinstance(item, syntax.FUNCTION)}
    walk.use(
        *(item for item in syntax.evaluated_parts(node) if not isinstance(item, syntax.FUNCTION)),
        known={},
    )
    ends = {}
    # What the constructor leaves in `self` for good.
    fixed: _Known = {}
    constructor = methods.pop("__init__", None)
    if constructor and walk.state.plain:
        given = {
            name: default.value
            for name, default in syntax.defaults(constructor.args).items()
            if isinstance(default, ast.Constant)
        }
        built, _ = walk.function(constructor, given)
        changing = syntax.stored_names(*methods.values())
        for name, held in built.items():
            if name.startswith("self.") and name not in changing:
                fixed[name] = held
    elif constructor:
        walk.function(constructor, {})
    for name, method in methods.items():
        _, ends[name] = walk.function(method, fixed)
    return ends


@dataclass
class _Walk:
    """A walk through statements in one state; `used` gathers the names on every way it takes."""

    state: State
    used: set[str] = field(default_factory=set)

    def function(self, node: syntax.Function, known: _Known) -> tuple[_Known, str]:
        """What is known behind a function's body, and how it ends."""
        self.use(*node.decorator_list, node.args, known=known)
        return self.block(node.body, known)

    def block(self, body: Iterable[ast.stmt], known: _Known) -> tuple[_Known, str]:
        """What is known behind a block of statements, and how it ends."""
        for statement in body:
            known, end = self._step(statement, known)
            if end != _GOES_ON:
                return known, end
        return known, _GOES_ON

    def use(self, *nodes: ast.AST, known: _Known) -> None:
        """Note the names in some nodes, less the untaken arm of a conditional expression."""
        todo = list(nodes)
        while todo:
            node = todo.pop()
            if name := syntax.dotted_name(node):
                self.used.add(name)
            elif isinstance(node, ast.IfExp):
                todo += [node.test, *arms(node, partial(self._told, known, False))]
            else:
                todo += syntax.evaluated_parts(node)

    def _step(self, node: ast.stmt, known: _Known) -> tuple[_Known, str]:
        match node:
            case ast.If():
                return self._if(node, known)
            case ast.With() | ast.AsyncWith():
                self.use(*node.items, known=known)
                return self.block(node.body, _without(known, syntax.stored_names(*node.items)))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                # Its names are used; what it does to a `mode` of its own stays within it.
                self.used |= uses(node, self.state)
                return known, _GOES_ON
        if any(syntax.inner_blocks(node)):
            return self._blocks(node, known), _GOES_ON
        self.use(node, known=known)
        if isinstance(node, ast.Return):
            return known, _RETURNS
        if isinstance(node, ast.Raise):
            return known, _RAISES
        if isinstance(node, ast.Assert):
            truth = self._value(node.test, known)
            if truth is not UNKNOWN and not truth:
                return known, _RAISES
        return self._assigned(node, known), _GOES_ON

    def _if(self, node: ast.If, known: _Known) -> tuple[_Known, str]:
        truth = self._value(node.test, known, deciding=chooses_mode(node))
        self.use(node.test, known=known)
        if truth is UNKNOWN:
            # Both ways are walked, each from what was known before.
            return _met(self.block(node.body, known), self.block(node.orelse, known))
        if truth:
            return self.block(node.body, known)
        return self.block(node.orelse, known)

    def _blocks(self, node: ast.stmt, known: _Known) -> _Known:
        """Loops, `try`, `match`: any of their blocks may run or not, more than once, or in part."""
        children = ast.iter_child_nodes(node)
        self.use(*(child for child in children if isinstance(child, ast.expr)), known=known)
        # A later turn of a loop sees what an earlier one assigned.
        changing = syntax.stored_names(node)
        known = _without(known, changing)
        for block in syntax.inner_blocks(node):
            behind, end = self.block(block, known)
            known, _ = _met((known, _GOES_ON), (_without(behind, changing), end))
        return known

    def _assigned(self, node: ast.stmt, known: _Known) -> _Known:
        whole = {name for target in syntax.targets(node) if (name := syntax.dotted_name(target))}
        parts = syntax.stored_names(
            *(target for target in syntax.targets(node) if not syntax.dotted_name(target))
        )
        after = _without(known, whole | parts)
        assigned = getattr(node, "value", None)
        if whole and assigned and not isinstance(node, ast.AugAssign):
            worth = self._value(assigned, known, deciding=sets_mode(node))
            if worth is not UNKNOWN:
                after.update(dict.fromkeys(whole, worth))
        return after

    def _value(self, node: ast.expr, known: _Known, deciding: bool = False) -> Any:
        """What an expression is worth here. Lengths are known only when `deciding` the mode:
        elsewhere the second axis of a tensor need not be the sequence."""
        return value(node, partial(self._told, known, deciding))

    def _told(self, known: _Known, deciding: bool, node: ast.AST) -> Any:
        if deciding and limit(node) is not None:
            return value(node, self._measured)
        name = syntax.dotted_name(node)
        if name == TRAINING:
            return self.state.training
        return known.get(name or "", UNKNOWN)

    def _measured(self, node: ast.AST) -> Any:
        if is_length(node):
            return self.state.length
        return UNKNOWN


def _without(known: _Known, names: Iterable[str]) -> _Known:
    forgotten = set(names)
    return {name: held for name, held in known.items() if name not in forgotten}


def _met(one: tuple[_Known, str], other: tuple[_Known, str]) -> tuple[_Known, str]:
    """Where two branches meet: what both agree on, unless one of them has ended before."""
    (known, end), (others, other_end) = one, other
    if end != _GOES_ON and other_end != _GOES_ON:
        if end == other_end == _RAISES:
            return known, _RAISES
        return known, _RETURNS
    if end != _GOES_ON:
        return others, _GOES_ON
    if other_end != _GOES_ON:
        return known, _GOES_ON
    both = {name: held for name, held in known.items() if others.get(name, UNKNOWN) == held}
    return both, _GOES_ON
