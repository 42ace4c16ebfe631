"""Shapes that a function's own source gives away: `B, T, H, K = q.shape`, or a call that hands `q`
on to such code."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

Symbols = tuple[str, ...]

# Calls that are followed: operator, autograd function, its forward, and what that calls.
_DEEPEST = 4


@functools.cache
def _tree(function: Callable[..., Any]) -> ast.stmt | None:
    """The function's syntax tree, None where there is no source."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None


@functools.cache
def unpacked(function: Callable[..., Any], depth: int = 0) -> dict[str, Symbols]:
    """Parameter → its dimensions, by what the function and those it calls unpack."""
    node = _tree(function)
    if not isinstance(node, ast.FunctionDef):
        return {}
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    shapes: dict[str, Symbols] = {argument.arg: () for argument in arguments}
    told = [_assigned(part) for part in ast.walk(node) if isinstance(part, ast.Assign)]
    if depth < _DEEPEST:
        told.append(_handed_on(node, inspect.unwrap(function), depth))
    for pairs in told:
        for name, dimensions in pairs:
            # What is said first holds.
            if shapes.get(name) == ():
                shapes[name] = dimensions
    return {name: dimensions for name, dimensions in shapes.items() if dimensions}


def _assigned(statement: ast.Assign) -> Iterator[tuple[str, Symbols]]:
    """`B, T, H = q.shape`, also of `q.size()`, and `B, T, H, V = *q.shape, v.shape[-1]`."""
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Tuple):
        return
    names = [getattr(part, "id", "") for part in target.elts]
    if isinstance(value, ast.Tuple) and value.elts and isinstance(value.elts[0], ast.Starred):
        names = names[: len(names) - len(value.elts) + 1]
        value = value.elts[0].value
    if isinstance(value, ast.Call) and not value.args:
        value = value.func
    if not isinstance(value, ast.Attribute) or value.attr not in ("shape", "size"):
        return
    tensor = getattr(value.value, "id", None)
    if tensor and names and all(names):
        yield tensor, tuple("X" if set(name) == {"_"} else name for name in names)


def _handed_on(
    node: ast.FunctionDef, function: Callable[..., Any], depth: int
) -> Iterator[tuple[str, Symbols]]:
    """What callees unpack of the arguments that they are handed by name."""
    scope = getattr(function, "__globals__", {})
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        callee = _callee(call.func, scope)
        if callee is None or callee is function:
            continue
        inner = unpacked(callee, depth + 1)
        for mine, theirs in _pairs(call, callee):
            if theirs in inner:
                yield mine, inner[theirs]


def _callee(node: ast.expr, scope: dict[str, Any]) -> Callable[..., Any] | None:
    """The function of the same package that a call goes to; of `X.apply` the forward."""
    called: Any = None
    if isinstance(node, ast.Name):
        called = scope.get(node.id)
    elif isinstance(node, ast.Attribute) and node.attr == "apply":
        called = getattr(scope.get(getattr(node.value, "id", "")), "forward", None)
    if not callable(called):
        return None
    called = inspect.unwrap(called)
    package = str(scope.get("__name__", "")).partition(".")[0]
    if inspect.isfunction(called) and called.__module__.partition(".")[0] == package:
        return called
    return None


def _pairs(call: ast.Call, callee: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Names of the caller with the parameters that they become."""
    parameters = list(inspect.signature(callee).parameters)
    if parameters and parameters[0] == "ctx":
        # The call goes through `apply`, which passes the context itself.
        parameters = parameters[1:]
    for argument, name in zip(call.args, parameters):
        if isinstance(argument, ast.Name):
            yield argument.id, name
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Name) and keyword.arg:
            yield keyword.value.id, keyword.arg
