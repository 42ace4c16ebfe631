"""What a string or a number may be, by what the code of a module compares it with."""

from __future__ import annotations

import ast
import collections
import functools
import inspect
import re
import sys


@functools.cache
def compared(module: str) -> dict[str, list]:
    """Name → the constants that a variable or attribute of that name is compared with."""
    found: dict = collections.defaultdict(list)
    try:
        nodes = ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
    except (OSError, TypeError, SyntaxError, KeyError):
        return found
    for node in nodes:
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            name = _name(node.left)
            for constant in _constants(node.comparators[0]):
                if name and constant not in found[name]:
                    found[name].append(constant)
    return found


def _name(node) -> str | None:
    return (
        node.id
        if isinstance(node, ast.Name)
        else node.attr
        if isinstance(node, ast.Attribute)
        else None
    )


def _constants(node) -> list:
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    values = [part.value for part in parts if isinstance(part, ast.Constant)]
    return [
        value for value in values if isinstance(value, (str, int)) and not isinstance(value, bool)
    ]


def choices(operator, parameter) -> list:
    """The values worth trying for a parameter: of `Literal[…]`, of comparisons, both truths of a
    flag.
    """
    if isinstance(parameter.default, bool):
        return [not parameter.default]
    kinds = (
        (str,)
        if isinstance(parameter.default, str)
        else (int,)
        if isinstance(parameter.default, int)
        else (str, int)
    )
    listed = re.findall(r"Literal\[(.*?)\]", str(parameter.annotation))
    literals = re.findall(r"['\"](\w+)['\"]", listed[0]) if listed else []
    values = literals + compared(operator.module).get(parameter.name, [])
    wanted = [
        value
        for value in values
        if isinstance(value, kinds) and value != parameter.default and value != ""
    ]
    return list(dict.fromkeys(wanted))[:4]


def hidden(source) -> list[str]:
    """The names that a function takes out of its `**kwargs`."""
    try:
        text = inspect.getsource(source)
    except (OSError, TypeError):
        return []
    return list(dict.fromkeys(re.findall(r"kwargs(?:\.get|\.pop)?[(\[]\s*['\"](\w+)['\"]", text)))
