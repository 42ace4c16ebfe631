"""What a string or a number may be, by what the code of a module compares it with."""

from __future__ import annotations

import ast
import collections
import functools
import inspect
import re
import sys
from typing import Any

from .operators import Operator

# Of one parameter: each costs a call.
_MOST = 4


@functools.cache
def _compared(module: str) -> dict[str, list[str | int]]:
    """Name → the constants that a variable or attribute of that name is compared with."""
    constants: dict[str, list[str | int]] = collections.defaultdict(list)
    try:
        nodes = ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
    except (OSError, TypeError, SyntaxError, KeyError):
        return constants
    for node in nodes:
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            # A variable has an id, an attribute an attr.
            name = getattr(node.left, "id", None) or getattr(node.left, "attr", None)
            if name:
                constants[name] += _constants(node.comparators[0])
    return constants


def _constants(node: ast.expr) -> list[str | int]:
    parts = [node]
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts = node.elts
    values = [part.value for part in parts if isinstance(part, ast.Constant)]
    return [v for v in values if isinstance(v, (str, int)) and not isinstance(v, bool)]


def choices(operator: Operator, parameter: inspect.Parameter) -> list[Any]:
    """The values worth trying for a parameter: of `Literal[…]`, of comparisons, and the other truth
    of a flag.
    """
    default = parameter.default
    if isinstance(default, bool):
        return [not default]
    kinds: tuple[type, ...] = (str, int)
    if isinstance(default, str):
        kinds = (str,)
    elif isinstance(default, int):
        kinds = (int,)
    listed = re.search(r"Literal\[(.*?)\]", str(parameter.annotation))
    values: list[str | int] = []
    if listed:
        values += re.findall(r"['\"](\w+)['\"]", listed[1])
    values += _compared(operator.module).get(parameter.name, [])
    telling = [v for v in values if isinstance(v, kinds) and v != default and v != ""]
    return list(dict.fromkeys(telling))[:_MOST]
