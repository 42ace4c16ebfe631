"""Operators of a package: all functions, classes and methods in its modules that launch kernels."""

import enum
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from ..inference.operators import FUNCTION, LAYER, METHOD, Operator, parameters_of
from .kernel_references import KernelReferences

# Classes whose methods are not called on an object that the driver builds.
_WITHOUT_METHODS = (
    enum.Enum,
    tuple,
    BaseException,
    torch.Tensor,
    torch.nn.Module,
    torch.autograd.Function,
)
# Methods of one class.
_MAX_METHODS = 8
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
        elif isinstance(value, type):
            operators += _methods(name, value, references)
    return sorted(operators, key=lambda operator: is_measurement(operator.module))


def is_measurement(module: str) -> bool:
    """Return True for a module that measures kernels and calls them in unusual ways."""
    return any(_MEASUREMENT.fullmatch(part) for part in module.split("."))


def _used_ids(values: Iterable[Any], references: KernelReferences) -> set[int]:
    """Return the ids of the functions and classes that others of them use."""
    wrapper_ids = {id(inspect.unwrap(value)): id(value) for value in values}
    known_ids = {*wrapper_ids, *wrapper_ids.values()}
    used_ids: set[int] = set()
    for value in values:
        used_ids |= _reachable_ids(value, known_ids, references)
    for used_id in list(used_ids):
        if used_id in wrapper_ids:
            used_ids.add(wrapper_ids[used_id])
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
    if isinstance(value, CustomOpDef):
        source = inspect.unwrap(value._init_fn)
        return Operator(
            name=name,
            call=value,
            kind=FUNCTION,
            outer=outer,
            kernels=kernels,
            parameters=parameters_of(source),
            source=source,
            shared=shared,
        )
    if inspect.isfunction(value):
        source = inspect.unwrap(value)
        parameters = parameters_of(value)
        if parameters and parameters[0].name == "ctx":
            # A part of an autograd function, which is called as a whole.
            return None
        return Operator(
            name=name,
            call=value,
            kind=FUNCTION,
            outer=outer,
            kernels=kernels,
            parameters=parameters,
            source=source,
            shared=shared,
        )
    if issubclass(value, torch.autograd.Function):
        source = inspect.unwrap(value.forward)
        parameters = tuple(p for p in parameters_of(source) if p.name != "ctx")
        return Operator(
            name=name,
            call=value.apply,
            kind=FUNCTION,
            outer=False,
            kernels=kernels,
            parameters=parameters,
            source=source,
        )
    if issubclass(value, torch.nn.Module) and value.forward is not torch.nn.Module.forward:
        source = inspect.unwrap(value.forward)
        return Operator(
            name=name,
            call=value,
            kind=LAYER,
            outer=outer,
            kernels=kernels,
            parameters=parameters_of(value),
            source=source,
        )
    return None


def _methods(name: str, owner: type, references: KernelReferences) -> list[Operator]:
    """Return the methods of a class that launch kernels.

    The step of an optimizer is an outer operator. Other methods are called only for kernels that
    no other operator launches.
    """
    if issubclass(owner, _WITHOUT_METHODS) or inspect.isabstract(owner):
        return []
    if issubclass(owner, torch.optim.Optimizer):
        kernels = references.method_kernels(owner, "step")
        if not kernels:
            return []
        return [_as_method(name, owner, "step", kernels, outer=True)]
    # Objects that the constructor builds may launch kernels, too.
    constructor_kernels = references.method_kernels(owner, "__init__")
    own_kernels = {}
    for method in _public_methods(owner):
        own_kernels[method] = references.method_kernels(owner, method)
    operators = []
    for method in sorted(own_kernels, key=lambda method: not own_kernels[method]):
        kernels = own_kernels[method] | constructor_kernels
        if kernels:
            operators.append(_as_method(name, owner, method, kernels, outer=False))
    return operators[:_MAX_METHODS]


def _as_method(
    name: str, owner: type, method: str, kernels: frozenset[str], outer: bool
) -> Operator:
    """Return a method as an operator."""
    name = f"{name}.{method}"
    attribute = inspect.getattr_static(owner, method)
    if isinstance(attribute, (staticmethod, classmethod)):
        # The method is called without an object.
        function = getattr(owner, method)
        return Operator(
            name=name,
            call=function,
            kind=FUNCTION,
            outer=outer,
            kernels=kernels,
            parameters=parameters_of(function),
            source=inspect.unwrap(attribute.__func__),
        )
    return Operator(
        name=name,
        call=owner,
        kind=METHOD,
        outer=outer,
        kernels=kernels,
        parameters=parameters_of(owner),
        source=inspect.unwrap(attribute),
        method=method,
    )


def _public_methods(owner: type) -> list[str]:
    """Return the names of a class's public methods, those that it defines itself first."""
    package = owner.__module__.partition(".")[0]
    names: dict[str, None] = {}
    for base in owner.__mro__:
        if base.__module__.partition(".")[0] == package:
            names |= dict.fromkeys(vars(base))
    methods = []
    for name in names:
        if _is_public_method(name, inspect.getattr_static(owner, name)):
            methods.append(name)
    return methods


def _is_public_method(name: str, attribute: Any) -> bool:
    if name.startswith("_") and name != "__call__":
        return False
    if isinstance(attribute, (staticmethod, classmethod)):
        attribute = attribute.__func__
    return inspect.isfunction(attribute) and not _SCRIPT_FUNCTION.match(name)
