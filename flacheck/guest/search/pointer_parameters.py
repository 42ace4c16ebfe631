"""The parameters of a kernel that are addresses: it or its callees load from or store to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ..pysource.functions import (
    called_name,
    calls_in,
    function_tree,
    names_in_scope,
    passed_arguments,
    tuple_assignments,
    variable_assignments,
)

_ACCESSES = ("load", "store", "atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg")
# Kernels that call each other, outermost first.
_MAX_CALLEES = 4


def callee_of(call: ast.Call, kernel: Any) -> Any:
    """Return the kernel that a call in a kernel refers to, None for other functions."""
    callee = names_in_scope(kernel.fn).get(called_name(call))
    if hasattr(callee, "arg_names") and hasattr(callee, "src"):
        return callee
    return None


def pointer_parameters(kernel: Any, depth: int = 0) -> set[str]:
    """Return the parameters that a kernel, or a kernel that it calls, loads from or stores to."""
    tree = function_tree(kernel.fn)
    if tree is None:
        return set()
    addresses = _Addresses(tree, kernel.arg_names)
    names: set[str] = set()
    for call in calls_in(tree):
        if called_name(call) in _ACCESSES:
            names.update(addresses.of_access(call))
            continue
        callee = callee_of(call, kernel)
        if callee is None or depth >= _MAX_CALLEES:
            continue
        inner_names = pointer_parameters(callee, depth + 1)
        for parameter, value in passed_arguments(call, callee.arg_names):
            if parameter in inner_names:
                names.update(addresses.bases(value))
    return names


class _Addresses:
    """The addresses in one kernel, each led back to the parameter that it starts with."""

    def __init__(self, tree: ast.FunctionDef, parameters: list[str]) -> None:
        self._parameters = parameters
        self._values: dict[str, list[ast.expr]] = {}
        # `x += offset` keeps the address that x starts with.
        for variable, value in variable_assignments(tree):
            self._values.setdefault(variable, []).append(value)
        for target, value in tuple_assignments(tree):
            elements = getattr(value, "elts", ())
            for variable_node, element in zip(target.elts, elements):
                if isinstance(variable_node, ast.Name):
                    self._values.setdefault(variable_node.id, []).append(element)

    def of_access(self, call: ast.Call) -> Iterator[str]:
        """Yield the parameters of `tl.load(x + i)` or `descriptor.load([i])`."""
        owner = getattr(call.func, "value", None)
        if isinstance(owner, ast.Name) and (
            owner.id in self._values or owner.id in self._parameters
        ):
            yield from self.bases(owner)
        elif call.args:
            yield from self.bases(call.args[0])

    def bases(self, address: ast.expr, visited: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield the parameters that an address starts with."""
        match address:
            case ast.Name(id=name):
                if name in self._parameters:
                    yield name
                elif name not in visited:
                    for value in self._values.get(name, ()):
                        yield from self.bases(value, visited | {name})
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                left = list(self.bases(address.left, visited))
                yield from left or self.bases(address.right, visited)
            case ast.Subscript():
                yield from self.bases(address.value, visited)
            case ast.IfExp():
                yield from self.bases(address.body, visited)
                yield from self.bases(address.orelse, visited)
            case ast.Call():
                yield from self._bases_of_call(address, visited)

    def _bases_of_call(self, call: ast.Call, visited: frozenset[str]) -> Iterator[str]:
        """Yield the bases of a block pointer, of a cast, or of an address in memory."""
        for keyword in call.keywords:
            if keyword.arg == "base":
                yield from self.bases(keyword.value, visited)
        owner = getattr(call.func, "value", None)
        if isinstance(owner, ast.expr) and called_name(call) == "to":
            yield from self.bases(owner, visited)
        elif call.args and called_name(call) != "arange":
            yield from self.bases(call.args[0], visited)
