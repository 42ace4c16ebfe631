"""Ranks and dtypes that a module compares tensors with before it launches a kernel.

For example `if scale.dim() == 1` and `w.dtype == torch.int8`: an argument of that name is worth a
call with that rank or dtype.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..pysource.functions import module_tree, variable_name, walk


@dataclass(frozen=True)
class TensorComparisons:
    """The ranks and dtypes that variables are compared with, by the variable's name."""

    ranks: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    dtypes: dict[str, list[torch.dtype]] = field(default_factory=lambda: defaultdict(list))

    def add_ranks(self, variable: str, values: Sequence[ast.expr]) -> None:
        """Add the positive integers among some constants."""
        for value in values:
            rank = getattr(value, "value", None)
            if type(rank) is int and rank > 0 and rank not in self.ranks[variable]:
                self.ranks[variable].append(rank)

    def add_dtypes(self, variable: str, values: Sequence[ast.expr]) -> None:
        """Add the dtypes among some expressions such as `torch.int8`."""
        for value in values:
            dtype = getattr(torch, getattr(value, "attr", ""), None)
            if isinstance(dtype, torch.dtype) and dtype not in self.dtypes[variable]:
                self.dtypes[variable].append(dtype)


@functools.cache
def compared_tensors(module: str) -> TensorComparisons:
    """Return the comparisons of tensors in a module's source."""
    comparisons = TensorComparisons()
    tree = module_tree(module)
    if tree is None:
        return comparisons
    for node in walk(tree):
        if not isinstance(node, ast.Compare) or len(node.comparators) != 1:
            continue
        right = node.comparators[0]
        values = getattr(right, "elts", [right])
        variable = _rank_variable(node.left)
        if variable:
            comparisons.add_ranks(variable, values)
        if isinstance(node.left, ast.Attribute) and node.left.attr == "dtype":
            variable = variable_name(node.left.value)
            comparisons.add_dtypes(variable, values)
    return comparisons


def _rank_variable(node: ast.expr) -> str:
    """Return the variable in `x.ndim`, `x.dim()` and `len(x.shape)`."""
    match node:
        case ast.Call(
            func=ast.Name(id="len"), args=[ast.Attribute(value=tensor, attr="shape"), *_]
        ):
            return variable_name(tensor)
        case ast.Call(func=ast.Attribute(value=tensor, attr="dim" | "ndimension")):
            return variable_name(tensor)
        case ast.Attribute(value=tensor, attr="ndim"):
            return variable_name(tensor)
        case _:
            return ""
