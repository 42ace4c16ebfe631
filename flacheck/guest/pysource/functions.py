"""Syntax trees of functions, their parameters, and the calls in them."""

from __future__ import annotations

import ast
import collections
import contextlib
import functools
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Function = Callable[..., Any]


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it in the order of `ast.walk`, in half of its time."""
    if isinstance(node, ast.FunctionDef):
        # Functions are read many times, and never changed.
        return iter(_nodes_of_function(node))
    return _walk(node)


@functools.cache
def _nodes_of_function(function: ast.FunctionDef) -> tuple[ast.AST, ...]:
    return tuple(_walk(function))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    nodes = [node]
    # The list grows while it is read.
    for current in nodes:
        yield current
        for name in current._fields:
            value = getattr(current, name, None)
            if isinstance(value, list):
                for element in value:
                    if isinstance(element, ast.AST):
                        nodes.append(element)
            elif isinstance(value, ast.AST):
                nodes.append(value)


@functools.cache
def file_tree(file: str) -> ast.Module | None:
    """Return the syntax tree of a file, None if it cannot be parsed; readers share the tree."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def function_tree(function: Function) -> ast.FunctionDef | None:
    """Return a function's syntax tree; None without source and for lambdas."""
    return function_source(function)[0]


@functools.cache
def function_source(function: Function) -> tuple[ast.FunctionDef | None, list[str]]:
    """Return a function's syntax tree and the lines that its line numbers count.

    The tree is None without source and for lambdas.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None:
        definition = definition_of(code)
        if definition is not None:
            return definition, linecache.getlines(code.co_filename)
    try:
        text = textwrap.dedent(inspect.getsource(function))
        statement = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None, []
    if isinstance(statement, ast.FunctionDef):
        return statement, text.splitlines()
    return None, []


def definition_of(code: types.CodeType) -> ast.FunctionDef | None:
    """Return the definition in the tree of its file, which readers share; None for lambdas.

    It is found without `inspect`, which splits a file into tokens to find the end of a function.
    """
    return _definitions(code.co_filename).get((code.co_name, code.co_firstlineno))


@functools.cache
def _definitions(file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """Return the functions of a file by name and first line, that of the first decorator."""
    tree = file_tree(file)
    if tree is None:
        return {}
    definitions = {}
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef):
            lines = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
            definitions[node.name, min(lines)] = node
    return definitions


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return the parameters of a function, without `*args` and `**kwargs`."""
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def parameter_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the names of a function's parameters, without `*args` and `**kwargs`."""
    return [parameter.arg for parameter in parameters(function)]


def dotted_name(node: ast.AST | None) -> str | None:
    """Return `a.b.c` for a name or a chain of attributes, None for any other node."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := dotted_name(node.value)):
        return f"{base}.{node.attr}"
    return None


def names_of(node: ast.AST, context: type[ast.expr_context] = ast.expr_context) -> set[str]:
    """Return the variables below a node, or those that are read (Load) or assigned (Store)."""
    names = set()
    for part in walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, context):
            names.add(part.id)
    return names


def last_name(node: ast.AST) -> str:
    """Return a variable's name or the last part of an attribute; empty for other expressions."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case _:
            return ""


def variable_name(node: ast.AST | None) -> str:
    """Return a variable's name; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    return ""


def method_name(node: ast.AST) -> str:
    """Return the name of the method that an expression calls; empty for other expressions."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return str(name)
        case _:
            return ""


def called_name(node: ast.AST) -> str:
    """Return the name of the function or method that an expression calls, else nothing."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return ""


def variable_assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variable and the value of each assignment such as `x = value`."""
    for part in walk(node):
        match part:
            case ast.Assign(targets=[ast.Name(id=variable), *_], value=value):
                yield variable, value


def tuple_assignments(node: ast.AST) -> Iterator[tuple[ast.Tuple, ast.expr]]:
    """Yield the target and the value of each assignment such as `x, y = value`."""
    for part in walk(node):
        match part:
            case ast.Assign(targets=[ast.Tuple() as target, *_], value=value):
                yield target, value


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a statement or function."""
    for part in walk(node):
        if isinstance(part, ast.Call):
            yield part


def names_in_scope(function: Function) -> Mapping[str, Any]:
    """Return the globals of a function, and the variables of functions around it, by name."""
    function = inspect.unwrap(function)
    scope: dict[str, Any] = getattr(function, "__globals__", {})
    cells = getattr(function, "__closure__", None)
    if not cells:
        return scope
    variables: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, cells):
        # A variable that is not assigned yet has no contents.
        with contextlib.suppress(ValueError):
            variables[name] = cell.cell_contents
    return collections.ChainMap(variables, scope)


def passed_arguments(call: ast.Call, parameters: Iterable[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield a callee's parameters, each with the expression that is passed to it."""
    yield from zip(parameters, call.args)
    for keyword in call.keywords:
        if keyword.arg:
            yield keyword.arg, keyword.value
