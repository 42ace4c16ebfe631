"""Follows the statements of a definition in order: which names it uses in a state.

A test whose outcome the source does not give may go both ways. Nothing is imported or run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from flacheck.source.syntax import (
    FUNCTION,
    all_names,
    chooses_mode,
    dotted,
    evaluated,
    inner_blocks,
    sets_mode,
    stored,
    targets,
)
from flacheck.source.values import UNKNOWN, Flow, State, value

Function = ast.FunctionDef | ast.AsyncFunctionDef


def uses(node: ast.AST, state: State) -> frozenset[str]:
    """The names that a definition uses in a state; none of a class whose `forward` can only raise
    there.
    """
    if isinstance(node, ast.ClassDef):
        return _class_uses(node, state)
    return _function(node, Flow(state)).uses if isinstance(node, FUNCTION) else all_names(node)


def _class_uses(node: ast.ClassDef, state: State) -> frozenset[str]:
    methods = {item.name: item for item in node.body if isinstance(item, FUNCTION)}
    flows = _methods(methods, state)
    if "forward" in flows and flows["forward"].end == "raises":
        return frozenset()
    rest = [item for item in evaluated(node) if not isinstance(item, FUNCTION)]
    return Flow(state).using(*rest).uses.union(*(flow.uses for flow in flows.values()))


def _methods(methods: Mapping[str, Function], state: State) -> dict[str, Flow]:
    """The flow of each method; those of a plain object know what its constructor stores and no
    other changes.
    """
    if not state.plain or "__init__" not in methods:
        return {name: _function(method, Flow(state)) for name, method in methods.items()}
    others = {name: method for name, method in methods.items() if name != "__init__"}
    built = _function(methods["__init__"], Flow(state, _defaults(methods["__init__"].args)))
    changing = stored(*others.values())
    fixed = {
        name: each
        for name, each in built.known.items()
        if name.startswith("self.") and name not in changing
    }
    return {
        "__init__": built,
        **{name: _function(method, Flow(state, fixed)) for name, method in others.items()},
    }


def _defaults(arguments: ast.arguments) -> dict[str, Any]:
    """The parameters that have a constant as default."""
    by_place = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(by_place), reversed(arguments.defaults)),
        *zip(arguments.kwonlyargs, arguments.kw_defaults),
    ]
    return {name.arg: default.value for name, default in pairs if isinstance(default, ast.Constant)}


def _function(node: Function, flow: Flow) -> Flow:
    return _after(node.body, flow.using(*node.decorator_list, node.args))


def _after(statements: Iterable[ast.stmt], flow: Flow) -> Flow:
    """The flow behind a block of statements."""
    for statement in statements:
        if flow.end:
            break
        flow = _STEPS.get(type(statement), _plain)(statement, flow)
    return flow


def _merge(one: Flow, other: Flow) -> Flow:
    """The flow where two branches meet: what either used, and what both agree on."""
    uses = one.uses | other.uses
    if one.end and other.end:
        return replace(one, uses=uses, end=one.end if one.end == other.end else "returns")
    if one.end or other.end:
        return replace(other if one.end else one, uses=uses)
    apart = [name for name, each in one.known.items() if other.known.get(name, UNKNOWN) != each]
    return replace(one.setting(apart), uses=uses)


def _plain(node: Any, flow: Flow) -> Flow:
    """An assignment, or a statement that leaves the order of things alone."""
    flow = flow.using(node)
    assigned = targets(node)
    if not assigned:
        return flow
    whole = [name for target in assigned if (name := dotted(target))]
    parts = stored(*(target for target in assigned if not dotted(target)))
    known = bool(whole) and node.value and not isinstance(node, ast.AugAssign)
    return flow.setting(parts).setting(
        whole, value(node.value, flow, deciding=sets_mode(node)) if known else UNKNOWN
    )


def _if(node: Any, flow: Flow) -> Flow:
    truth = value(node.test, flow, deciding=chooses_mode(node))
    flow = flow.using(node.test)
    if truth is UNKNOWN:
        return _merge(_after(node.body, flow), _after(node.orelse, flow))
    return _after(node.body if truth else node.orelse, flow)


def _assert(node: Any, flow: Flow) -> Flow:
    truth = value(node.test, flow)
    flow = flow.using(node)
    return flow if truth is UNKNOWN or truth else replace(flow, end="raises")


def _leave(node: Any, flow: Flow) -> Flow:
    return replace(flow.using(node), end="returns" if isinstance(node, ast.Return) else "raises")


def _with(node: Any, flow: Flow) -> Flow:
    return _after(node.body, flow.using(*node.items).setting(stored(*node.items)))


def _blocks(node: Any, flow: Flow) -> Flow:
    """Loops, `try` and `match`: any of their blocks may run or not, more than once, or in part."""
    flow = flow.using(
        *(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    )
    changing = stored(node)
    flow = flow.setting(changing)
    for block in inner_blocks(node):
        flow = _merge(flow, _after(block, flow).setting(changing))
    return flow


def _nested(node: Any, flow: Flow) -> Flow:
    """A function within a function: its names are used, what it does to a `mode` of its own stays
    there.
    """
    return replace(flow, uses=flow.uses | uses(node, flow.state))


_STEPS: dict[type[ast.stmt], Callable[[Any, Flow], Flow]] = {
    ast.If: _if,
    ast.Assert: _assert,
    ast.Return: _leave,
    ast.Raise: _leave,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.For: _blocks,
    ast.AsyncFor: _blocks,
    ast.While: _blocks,
    ast.Try: _blocks,
    ast.Match: _blocks,
    getattr(ast, "TryStar", ast.Try): _blocks,
    ast.FunctionDef: _nested,
    ast.AsyncFunctionDef: _nested,
    ast.ClassDef: _nested,
}
