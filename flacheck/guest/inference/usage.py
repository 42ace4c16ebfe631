"""Kinds of a kernel's parameters by their usage in its code.

A pointer is loaded from, a factor in an address is a number, and a tensor whose elements are part
of addresses holds integers.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..pysource.functions import (
    Function,
    calls_in,
    function_tree,
    method_name,
    names_in_scope,
    passed_arguments,
    tuple_assignments,
    variable_assignments,
    variable_name,
    walk,
)

TENSOR = "Tensor"
INDICES = "IndexTensor"
NUMBER = "int"
FLAG = "bool"
FRACTION = "float"
DTYPE = "torch.dtype"
# Names of numbers that are neither sizes nor offsets.
FRACTION_NAMES = re.compile(r"scale|eps|alpha|beta|temp|softcap|momentum|rate|slope|(^|_)p$")
# Levels of callees.
_MAX_DEPTH = 4
_MAX_ADDRESS_DEPTH = 16
_MEMORY_FUNCTIONS = frozenset(
    """
    load store make_block_ptr make_tensor_descriptor advance atomic_add atomic_max atomic_min
    atomic_cas atomic_xchg atomic_or atomic_and
    """.split()
)

# A parameter's name → its kind.
Kinds = dict[str, str]
# A variable's name → the first value that is assigned to it.
_Assignments = dict[str, ast.expr]


def condition_names(condition: ast.expr) -> Iterator[str]:
    """Yield the names that are conditions by themselves."""
    match condition:
        case ast.Name():
            yield condition.id
        case ast.UnaryOp(op=ast.Not()):
            yield from condition_names(condition.operand)
        case ast.BoolOp():
            for part in condition.values:
                yield from condition_names(part)


def kernel_parameter_kinds(
    node: ast.FunctionDef, scope: Mapping[str, Any] | None = None, depth: int = 0
) -> Kinds:
    """Return the kinds of a kernel's parameters: pointers, pointers to indices, and numbers."""
    parameters = [parameter.arg for parameter in (*node.args.args, *node.args.kwonlyargs)]
    assignments = _first_values(node)
    addresses = _memory_addresses(node)
    kinds: Kinds = dict.fromkeys(parameters, NUMBER)
    for address in addresses:
        pointer = _base_pointer(address, assignments, parameters)
        if pointer:
            kinds[pointer] = TENSOR
    callee_kinds = dict(_callee_pointers(node, scope or {}, assignments, parameters, depth))
    # A pointer in this kernel is one to indices if a callee uses it so.
    kinds.update(callee_kinds)
    for variable in _address_variables(addresses, assignments):
        pointer = _index_pointer(assignments.get(variable), assignments, parameters)
        if pointer:
            kinds[pointer] = INDICES
    return kinds


@functools.cache
def _callee_kinds(callee: Function, depth: int) -> Kinds:
    """Return the kinds of the parameters of a kernel that another one calls."""
    node = function_tree(callee)
    return {} if node is None else kernel_parameter_kinds(node, names_in_scope(callee), depth)


def _first_values(node: ast.FunctionDef) -> _Assignments:
    """Return the first value of each variable; `x += offset` keeps the address of x."""
    assignments: _Assignments = {}
    for variable, value in variable_assignments(node):
        assignments.setdefault(variable, value)
    for target, value in tuple_assignments(node):
        for variable_node, element in zip(target.elts, getattr(value, "elts", ())):
            assignments.setdefault(variable_name(variable_node), element)
    return assignments


def _memory_addresses(node: ast.FunctionDef) -> list[ast.expr]:
    """Return the addresses that a kernel loads from or stores to."""
    addresses = []
    for call in calls_in(node):
        if method_name(call) in _MEMORY_FUNCTIONS:
            # Those of a descriptor's own methods begin with the descriptor: `d.load([i])`.
            addresses += [*call.args[:1], call.func.value]  # type: ignore[attr-defined]
            for keyword in call.keywords:
                if keyword.arg == "base":
                    addresses.append(keyword.value)
    return addresses


def _index_pointer(
    value: ast.expr | None, assignments: _Assignments, parameters: list[str]
) -> str | None:
    """Return the pointer that a variable is loaded from: `tl.load(…).to(tl.int64)`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr == "load" and value.args:
            return _base_pointer(value.args[0], assignments, parameters)
        value = value.func.value
    return None


def _callee_pointers(
    node: ast.FunctionDef,
    scope: Mapping[str, Any],
    assignments: _Assignments,
    parameters: list[str],
    depth: int,
) -> Iterator[tuple[str, str]]:
    """Yield the parameters that a kernel passes to others as pointers, each with its kind."""
    if depth >= _MAX_DEPTH:
        return
    for call in calls_in(node):
        callee = getattr(scope.get(variable_name(call.func)), "fn", None)
        if not inspect.isfunction(callee):
            continue
        kinds = _callee_kinds(callee, depth + 1)
        for name, argument in passed_arguments(call, inspect.signature(callee).parameters):
            if kinds.get(name) in (TENSOR, INDICES):
                pointer = _base_pointer(argument, assignments, parameters)
                if pointer:
                    yield pointer, kinds[name]


def _base_pointer(
    node: ast.expr, assignments: _Assignments, parameters: list[str], depth: int = 0
) -> str | None:
    """Return the parameter that an address starts with: the leftmost term of a sum."""
    if depth > _MAX_ADDRESS_DEPTH:
        return None
    depth += 1
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            left = _base_pointer(node.left, assignments, parameters, depth)
            return left or _base_pointer(node.right, assignments, parameters, depth)
        case ast.Name():
            if node.id in assignments:
                pointer = _base_pointer(assignments[node.id], assignments, parameters, depth)
                if pointer or node.id not in parameters:
                    return pointer
            if node.id in parameters:
                return node.id
        case ast.Call() if method_name(node) in _MEMORY_FUNCTIONS and node.args:
            return _base_pointer(node.args[0], assignments, parameters, depth)
        case ast.Subscript() | ast.IfExp():
            value = node.value if isinstance(node, ast.Subscript) else node.body
            return _base_pointer(value, assignments, parameters, depth)
        case ast.Call(func=ast.Attribute(value=owner)):
            # `x.to(tl.pointer_type(…))`
            return _base_pointer(owner, assignments, parameters, depth)
    return None


def _address_variables(addresses: list[ast.expr], assignments: _Assignments) -> set[str]:
    """Return the variables that addresses are computed from, directly or indirectly."""
    variables: set[str] = set()
    queue: list[ast.AST] = list(addresses)
    while queue:
        for part in walk(queue.pop()):
            if not isinstance(part, ast.Name) or part.id in variables:
                continue
            variables.add(part.id)
            value = assignments.get(part.id)
            # A loaded variable holds another address than the one that it was loaded from.
            if value is not None and not _contains_load(value):
                queue.append(value)
    return variables


def _contains_load(node: ast.expr) -> bool:
    return any(method_name(call) == "load" for call in calls_in(node))
