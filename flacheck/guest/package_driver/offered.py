"""All that a package offers which ends in a launch, found in its modules."""

import enum
import inspect
import re
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from .operators import FUNCTION, LAYER, METHOD, Operator, parameters_of
from .uses import Uses

# Classes whose methods nobody calls on an object that he made.
_NO_OBJECTS = (
    enum.Enum,
    tuple,
    BaseException,
    torch.Tensor,
    torch.nn.Module,
    torch.autograd.Function,
)
# Of one class.
_MOST_METHODS = 8
# What a module runs as a script: programs and the tests and benchmarks of their authors.
_SCRIPTS = re.compile(r"main$|test_|bench(mark)?(_|$)")


def operators(modules: Iterable[ModuleType], packages: Iterable[str]) -> list[Operator]:
    """Every operator of some modules, all of these packages, that leads to a kernel."""
    uses = Uses(packages)
    namespaces = [vars(module) for module in modules if "__path__" in vars(module)]
    offered = {id(thing) for namespace in namespaces for thing in namespace.values()}
    defined = [(name, thing) for module in modules for name, thing in _defined(module)]
    things = [thing for _, thing in defined]
    called = _called(things, uses)
    by_functions = _called([thing for thing in things if not _is_layer(thing)], uses)
    offering = []
    for name, thing in defined:
        kernels = uses.kernels(thing)
        if not kernels:
            continue
        outer = id(thing) in offered or id(thing) not in called
        shared = id(thing) in by_functions
        operator = _operator(name, thing, outer, kernels, shared)
        if operator is not None:
            offering.append(operator)
        elif isinstance(thing, type):
            offering += _methods(name, thing, uses)
    return offering


def _called(defined: Iterable[Any], uses: Uses) -> set[int]:
    """The ids of those functions and classes that another of them uses."""
    wrapped = {id(inspect.unwrap(thing)): id(thing) for thing in defined}
    homes = {*wrapped, *wrapped.values()}
    used: set[int] = set()
    for thing in defined:
        used |= _others(thing, homes, uses)
    return used | {wrapped[each] for each in used if each in wrapped}


def _others(thing: Any, homes: set[int], uses: Uses) -> set[int]:
    """The ids of the nearest of some functions and classes that one of them leads to."""
    others = homes - {id(thing), id(inspect.unwrap(thing))}
    return {id(end) for end in uses.reached(thing, lambda end: id(end) in others)}


def _defined(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and classes whose home a module is."""
    for name, thing in list(vars(module).items()):
        if _is_home(module.__name__, name, thing) and not _SCRIPTS.match(name):
            yield f"{module.__name__}:{name}", thing


def _is_layer(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, torch.nn.Module)


def _is_home(module: str, name: str, thing: Any) -> bool:
    if isinstance(thing, CustomOpDef):
        return bool(thing._init_fn.__module__ == module)
    if inspect.isfunction(thing) or isinstance(thing, type):
        return thing.__module__ == module and thing.__name__ == name
    return False


def _operator(
    name: str, thing: Any, outer: bool, kernels: frozenset[str], shared: bool
) -> Operator | None:
    if isinstance(thing, CustomOpDef):
        body = inspect.unwrap(thing._init_fn)
        return Operator(name, thing, FUNCTION, outer, kernels, parameters_of(body), body, shared)
    if inspect.isfunction(thing):
        source = inspect.unwrap(thing)
        parameters = parameters_of(thing)
        if parameters and parameters[0].name == "ctx":
            # A part of an autograd function, which is called as a whole.
            return None
        return Operator(name, thing, FUNCTION, outer, kernels, parameters, source, shared)
    if issubclass(thing, torch.autograd.Function):
        forward = inspect.unwrap(thing.forward)
        parameters = tuple(p for p in parameters_of(forward) if p.name != "ctx")
        return Operator(name, thing.apply, FUNCTION, False, kernels, parameters, forward)
    if issubclass(thing, torch.nn.Module) and thing.forward is not torch.nn.Module.forward:
        source = inspect.unwrap(thing.forward)
        return Operator(name, thing, LAYER, outer, kernels, parameters_of(thing), source)
    return None


def _methods(name: str, kind: type, uses: Uses) -> list[Operator]:
    """What objects of a class do that leads to kernels. An optimizer's step is what everybody calls
    of it; other methods are called for kernels that nothing else launches."""
    if issubclass(kind, _NO_OBJECTS) or inspect.isabstract(kind):
        return []
    if issubclass(kind, torch.optim.Optimizer):
        kernels = uses.of_method(kind, "step")
        return [_method(name, kind, "step", kernels, outer=True)] if kernels else []
    # What its constructor made for it may launch kernels, too.
    made = uses.of_method(kind, "__init__")
    own = {called: uses.of_method(kind, called) for called in _public(kind)}
    telling = sorted(own, key=lambda called: not own[called])
    found = [_method(name, kind, each, own[each] | made, outer=False) for each in telling]
    return [each for each in found if each.kernels][:_MOST_METHODS]


def _method(name: str, kind: type, called: str, kernels: frozenset[str], outer: bool) -> Operator:
    name = f"{name}.{called}"
    held = inspect.getattr_static(kind, called)
    if isinstance(held, (staticmethod, classmethod)):
        # No object is made for it.
        bound = getattr(kind, called)
        source = inspect.unwrap(held.__func__)
        return Operator(name, bound, FUNCTION, outer, kernels, parameters_of(bound), source)
    source = inspect.unwrap(held)
    parameters = parameters_of(kind)
    return Operator(name, kind, METHOD, outer, kernels, parameters, source, method=called)


def _public(kind: type) -> list[str]:
    """The methods that users call, those first that the class itself defines."""
    names: dict[str, None] = {}
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] == kind.__module__.partition(".")[0]:
            names |= dict.fromkeys(vars(each))
    return [name for name in names if _is_called(name, inspect.getattr_static(kind, name))]


def _is_called(name: str, held: Any) -> bool:
    if isinstance(held, (staticmethod, classmethod)):
        held = held.__func__
    is_public = not name.startswith("_") or name == "__call__"
    return is_public and inspect.isfunction(held) and not _SCRIPTS.match(name)
