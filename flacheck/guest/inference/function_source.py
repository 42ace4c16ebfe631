"""Syntax trees of functions."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


@functools.cache
def function_tree(function: Callable[..., Any]) -> ast.FunctionDef | None:
    """Return a function's syntax tree; None without source and for lambdas."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        definition = tree.body[0]
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None
    if isinstance(definition, ast.FunctionDef):
        return definition
    return None


def parameter_names(function: ast.FunctionDef) -> list[str]:
    """Return the names of a function's parameters, without `*args` and `**kwargs`."""
    arguments = function.args
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return [parameter.arg for parameter in parameters]
