"""Which ranks and dtypes of tensors a module asks for where it decides what to launch: `if
scale.dim() == 1`, `w.dtype == torch.int8`. An argument of that name is worth trying so."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections import defaultdict
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Branches:
    """By a variable's name: the ranks and dtypes that it is compared with."""

    ranks: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    dtypes: dict[str, list[torch.dtype]] = field(default_factory=lambda: defaultdict(list))


@functools.cache
def branches(module: str) -> Branches:
    found = Branches()
    try:
        nodes = ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
    except (OSError, TypeError, SyntaxError, KeyError):
        return found
    for node in nodes:
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            _note(found, node.left, node.comparators[0])
    return found


def _note(found: Branches, left: ast.expr, right: ast.expr) -> None:
    values = getattr(right, "elts", [right])
    tensor = _ranked(left)
    if tensor:
        for value in values:
            rank = getattr(value, "value", None)
            if type(rank) is int and rank > 0 and rank not in found.ranks[tensor]:
                found.ranks[tensor].append(rank)
    if isinstance(left, ast.Attribute) and left.attr == "dtype":
        tensor = getattr(left.value, "id", "")
        for value in values:
            dtype = getattr(torch, getattr(value, "attr", ""), None)
            if isinstance(dtype, torch.dtype) and dtype not in found.dtypes[tensor]:
                found.dtypes[tensor].append(dtype)


def _ranked(node: ast.expr) -> str:
    """The variable in `x.ndim`, `x.dim()` and `len(x.shape)`."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len" and node.args:
        node = node.args[0]
        wanted: tuple[str, ...] = ("shape",)
    elif isinstance(node, ast.Call):
        node = node.func
        wanted = ("dim", "ndimension")
    else:
        wanted = ("ndim",)
    if isinstance(node, ast.Attribute) and node.attr in wanted:
        return str(getattr(node.value, "id", ""))
    return ""
