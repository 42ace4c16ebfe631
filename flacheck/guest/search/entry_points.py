"""Operators of a package: all functions and classes in its modules that launch kernels."""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from ..inference.operators import FUNCTION, LAYER, Operator, parameters_of
from .kernel_references import KernelReferences

# Functions of scripts: programs, and their authors' tests and benchmarks.
_MEASUREMENT = re.compile(r"(.*_)?(bench(mark(s|ing)?)?|profil(e|er|ing))(_.*)?")
_SCRIPT_FUNCTION = re.compile(r"main$|test_|bench(mark)?(_|$)")


def find_operators(modules: Sequence[ModuleType], packages: Iterable[str]) -> list[Operator]:
    """Return the operators in some modules, which belong to these packages."""
    references = KernelReferences(packages)
    exported_ids: set[int] = set()
    definitions: list[tuple[str, Any]] = []
    for module in modules:
        if "__path__" in vars(module):
            exported_ids.update(id(value) for value in vars(module).values())
        definitions += _definitions(module)
    values = [value for _, value in definitions]
    used_ids = _used_ids(values, references)
    without_layers = [value for value in values if not _is_layer(value)]
    used_by_functions = _used_ids(without_layers, references)
    operators = []
    for name, value in definitions:
        kernels = references.kernels(value)
        if not kernels:
            continue
        outer = id(value) in exported_ids or id(value) not in used_ids
        shared = id(value) in used_by_functions
        operator = as_operator(name, value, outer, kernels, shared)
        if operator is not None:
            operators.append(operator)
    return sorted(operators, key=lambda operator: is_measurement(operator.module))


def is_measurement(module: str) -> bool:
    """Return True for a module that measures kernels and calls them in unusual ways."""
    return any(_MEASUREMENT.fullmatch(part) for part in module.split("."))


def _used_ids(values: Iterable[Any], references: KernelReferences) -> set[int]:
    """Return the ids of the functions and classes that other ones of the list use."""
    wrapper_ids = {id(inspect.unwrap(value)): id(value) for value in values}
    known_ids = {*wrapper_ids, *wrapper_ids.values()}
    used_ids: set[int] = set()
    for value in values:
        for used_id in _reachable_ids(value, known_ids, references):
            used_ids.update((used_id, wrapper_ids.get(used_id, used_id)))
    return used_ids


def _reachable_ids(value: Any, known_ids: set[int], references: KernelReferences) -> set[int]:
    """Return the ids of the first known functions and classes reachable from a value."""
    other_ids = known_ids - {id(value), id(inspect.unwrap(value))}
    return {id(end) for end in references.reachable(value, lambda end: id(end) in other_ids)}


def _definitions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes that a module defines, each with its name."""
    for name, value in list(vars(module).items()):
        if _is_defined_in(module.__name__, name, value) and not _SCRIPT_FUNCTION.match(name):
            yield f"{module.__name__}:{name}", value


def _is_layer(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def _is_defined_in(module: str, name: str, value: Any) -> bool:
    """Return True unless a module imports the function or class from another one."""
    if isinstance(value, CustomOpDef):
        return bool(value._init_fn.__module__ == module)
    if inspect.isfunction(value) or isinstance(value, type):
        return value.__module__ == module and value.__name__ == name
    return False


def as_operator(
    name: str, value: Any, outer: bool, kernels: frozenset[str], shared: bool
) -> Operator | None:
    """Return a function, autograd function or layer as an operator, else None."""
    function: Any = value
    call: Any = value
    kind = FUNCTION
    if isinstance(value, CustomOpDef):
        function = value._init_fn
    elif isinstance(value, type):
        if issubclass(value, torch.autograd.Function):
            call, outer, shared = call.apply, False, False
        elif not _is_layer(value) or call.forward is torch.nn.Module.forward:
            return None
        else:
            kind = LAYER
        function = function.forward
    parameters = parameters_of(value if kind == LAYER else function)
    if parameters and parameters[0].name == "ctx":
        if call is value:
            # A part of an autograd function, which is called as a whole.
            return None
        parameters = parameters[1:]
    return Operator(
        name=name,
        call=call,
        kind=kind,
        outer=outer,
        kernels=kernels,
        parameters=parameters,
        source=inspect.unwrap(function),
        shared=shared,
    )
