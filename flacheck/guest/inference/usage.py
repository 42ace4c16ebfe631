"""Kinds of parameters without an annotation, by their usage in the function.

A function that reads `x.stride(0)` takes a tensor, one that divides by `n` a number, and one with
`if causal` a flag. An argument that is passed to a kernel has the kind that the kernel's code
implies: a pointer is loaded from, a factor in an address is a number, and a tensor whose elements
are part of addresses holds integers.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

from torch._library.custom_ops import CustomOpDef

from ..pysource.functions import (
    Function,
    called_name,
    calls_in,
    function_tree,
    last_name,
    method_name,
    names_in_scope,
    parameter_names,
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
# If usages disagree, a parameter has the first of these kinds.
_PRECEDENCE = (INDICES, TENSOR, DTYPE, FRACTION, NUMBER, FLAG)
# Levels of callees.
_MAX_DEPTH = 4
_MAX_ADDRESS_DEPTH = 16
_TENSOR_ATTRIBUTES = frozenset(
    """
    shape stride dtype device data_ptr contiguous is_contiguous size view reshape ndim dim numel
    is_cuda t T transpose permute unsqueeze squeeze to float half bfloat16 new_empty new_zeros
    element_size requires_grad clone detach copy_ zero_ fill_ flatten expand untyped_storage
    """.split()
)
_TENSOR_FUNCTIONS = (
    *("empty_like", "zeros_like", "ones_like", "rand_like", "full_like", "is_tensor"),
    "save_for_backward",
)
_NUMBER_FUNCTIONS = ("range", "cdiv", "next_power_of_2", "ceil", "log2", "sqrt")
_MEMORY_FUNCTIONS = frozenset(
    """
    load store make_block_ptr make_tensor_descriptor advance atomic_add atomic_max atomic_min
    atomic_cas atomic_xchg atomic_or atomic_and
    """.split()
)

# A parameter's name → its kind.
Kinds = dict[str, str]
# Names that a function uses, each with the kind of the usage.
Usages = Iterator[tuple[str, str]]
# A variable's name → the first value that is assigned to it.
_Assignments = dict[str, ast.expr]


@functools.cache
def parameter_kinds(function: Function, depth: int = 0) -> Kinds:
    """Return the kinds of parameters by their usage in a function and in its callees."""
    node = function_tree(function)
    if node is None:
        return {}
    scope = names_in_scope(function)
    if _is_kernel(node):
        return kernel_parameter_kinds(node, scope, depth)
    usages = list(_direct_usages(node))
    if depth < _MAX_DEPTH:
        usages += _callee_usages(node, scope, depth)
    kinds_by_name: dict[str, set[str]] = {}
    for name in parameter_names(node):
        kinds_by_name[name] = set()
    for name, kind in usages:
        if name in kinds_by_name:
            kinds_by_name[name].add(kind)
    return {name: _first_kind(name, kinds) for name, kinds in kinds_by_name.items() if kinds}


def local_kernels(function: Function) -> list[str]:
    """Return the names of the kernels that a function defines."""
    if not any(isinstance(constant, CodeType) for constant in function.__code__.co_consts):
        return []
    definition = function_tree(function)
    if definition is None:
        return []
    names = []
    for node in walk(definition):
        if isinstance(node, ast.FunctionDef) and node is not definition and _is_kernel(node):
            names.append(node.name)
    return names


def _first_kind(name: str, kinds: set[str]) -> str:
    """Return the kind of a parameter from the kinds of its usages."""
    kind = next(kind for kind in _PRECEDENCE if kind in kinds)
    if kind == NUMBER and FRACTION_NAMES.search(name):
        return FRACTION
    return kind


def _is_kernel(node: ast.FunctionDef) -> bool:
    """Return True for a function with the decorator `jit`."""
    for decorator in node.decorator_list:
        if "jit" in (last_name(decorator), called_name(decorator)):
            return True
    return False


def _direct_usages(node: ast.FunctionDef) -> Usages:
    """Yield the names that a function itself uses, each with the kind of the usage."""
    for part in walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id=name)) if part.attr in _TENSOR_ATTRIBUTES:
                yield name, TENSOR
            case ast.Call():
                yield from _call_usages(part)
            case ast.BinOp(op=ast.Mod() | ast.FloorDiv()):
                for name in _plain_names((part.left, part.right)):
                    yield name, NUMBER
            case ast.If() | ast.IfExp() | ast.While():
                for name in condition_names(part.test):
                    yield name, FLAG


def _call_usages(call: ast.Call) -> Usages:
    """Yield the arguments of a function for tensors, for numbers or for dtypes."""
    function = called_name(call)
    for keyword in call.keywords:
        if keyword.arg == "dtype" and isinstance(keyword.value, ast.Name):
            yield keyword.value.id, DTYPE
    if function in _TENSOR_FUNCTIONS:
        for name in _plain_names(call.args):
            yield name, TENSOR
    elif function in _NUMBER_FUNCTIONS:
        for name in _plain_names(call.args):
            yield name, NUMBER


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


def _plain_names(nodes: Iterable[ast.expr]) -> Iterator[str]:
    """Yield the names among some expressions."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id


def _callee_usages(node: ast.FunctionDef, scope: Mapping[str, Any], depth: int) -> Usages:
    """Yield the names that are passed to kernels and functions, each with its kind there."""
    for call in calls_in(node):
        callee, parameters = find_callee(call.func, scope)
        if callee is None:
            continue
        kinds = parameter_kinds(callee, depth + 1)
        for parameter, argument in passed_arguments(call, parameters):
            if isinstance(argument, ast.Name) and parameter in kinds:
                yield argument.id, kinds[parameter]


def find_callee(node: ast.expr, scope: Mapping[str, Any]) -> tuple[Function | None, list[str]]:
    """Return the package's function that is called or launched, and the parameters of the call.

    For `X.apply`, that is the forward without its context.
    """
    bound_parameters = 0
    callee: Any = None
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        callee = scope.get(node.id)
    elif isinstance(node, ast.Attribute) and node.attr == "apply":
        function_class = scope.get(variable_name(node.value))
        callee = getattr(function_class, "forward", None)
        bound_parameters = 1
    if isinstance(callee, CustomOpDef):
        callee = callee._init_fn
    for _ in range(_MAX_DEPTH):
        if not inspect.isfunction(callee) and hasattr(callee, "fn"):
            callee = callee.fn
    if not inspect.isfunction(callee):
        return None, []
    package = str(scope.get("__name__", "")).partition(".")[0]
    if str(callee.__module__).partition(".")[0] != package:
        return None, []
    callee = inspect.unwrap(callee)
    return callee, list(inspect.signature(callee).parameters)[bound_parameters:]


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
) -> Usages:
    """Yield the parameters that a kernel passes to others as pointers, each with its kind."""
    if depth >= _MAX_DEPTH:
        return
    for call in calls_in(node):
        if not isinstance(call.func, ast.Name):
            continue
        callee, callee_parameters = find_callee(call.func, scope)
        if callee is None:
            continue
        kinds = parameter_kinds(callee, depth + 1)
        for name, argument in passed_arguments(call, callee_parameters):
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
