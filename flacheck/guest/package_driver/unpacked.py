"""Shapes that a function's own source gives away: `B, T, H, K = q.shape`, or a call that hands `q`
on to such code.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap

_DEEPEST = 4


@functools.cache
def tree(function):
    """The function's syntax tree, None where there is no source."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None


@functools.cache
def unpacked(function, depth: int = 0) -> dict[str, tuple[str, ...]]:
    """Parameter → its dimensions, by what the function and those it calls unpack."""
    node = tree(function)
    if not isinstance(node, ast.FunctionDef):
        return {}
    names = {
        argument.arg
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    }
    found: dict[str, tuple[str, ...]] = {}
    for statement in ast.walk(node):
        if isinstance(statement, ast.Assign):
            for name, dimensions in _assigned(statement):
                if name in names:
                    found.setdefault(name, dimensions)
    if depth < _DEEPEST:
        for name, dimensions in _handed_on(node, inspect.unwrap(function), depth):
            if name in names:
                found.setdefault(name, dimensions)
    return found


def _assigned(statement):
    """`B, T, H = q.shape` and `B, T, H, V = *q.shape, v.shape[-1]`."""
    target = statement.targets[0]
    if not isinstance(target, ast.Tuple):
        return
    names = [part.id if isinstance(part, ast.Name) else "" for part in target.elts]
    value = statement.value
    if _shaped(value):
        yield from _whole(_shaped(value), names)
    elif isinstance(value, ast.Tuple) and value.elts and isinstance(value.elts[0], ast.Starred):
        rest = len(value.elts) - 1
        if _shaped(value.elts[0].value):
            yield from _whole(_shaped(value.elts[0].value), names[: len(names) - rest])


def _whole(name: str, names):
    if names and all(part.strip("_") or part for part in names):
        yield name, tuple(part if part.strip("_") else "X" for part in names)


def _shaped(node) -> str | None:
    """`q` of `q.shape` or `q.size()`."""
    if isinstance(node, ast.Call) and not node.args:
        node = node.func
    if (
        isinstance(node, ast.Attribute)
        and node.attr in ("shape", "size")
        and isinstance(node.value, ast.Name)
    ):
        return node.value.id
    return None


def _handed_on(node, function, depth: int):
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


def _callee(node, scope: dict):
    """The function of the same package that a call goes to; of `X.apply` the forward."""
    if isinstance(node, ast.Name):
        found = scope.get(node.id)
    elif (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr == "apply"
    ):
        found = getattr(scope.get(node.value.id), "forward", None)
    else:
        return None
    found = inspect.unwrap(found) if callable(found) else None
    mine = str(scope.get("__name__", "")).partition(".")[0]
    return (
        found if inspect.isfunction(found) and found.__module__.partition(".")[0] == mine else None
    )


def _pairs(call, callee):
    """Names of the caller with the parameters that they become."""
    parameters = list(inspect.signature(callee).parameters)
    if parameters and parameters[0] == "ctx":
        parameters = parameters[1:]
    for argument, name in zip(call.args, parameters):
        if isinstance(argument, ast.Name):
            yield argument.id, name
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Name) and keyword.arg:
            yield keyword.value.id, keyword.arg
