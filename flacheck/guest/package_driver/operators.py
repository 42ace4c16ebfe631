"""What a package offers that ends in a launch: functions, autograd functions, layers."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import torch

FUNCTION, LAYER = "function", "layer"
_IGNORED = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


@dataclass(frozen=True)
class Operator:
    """Something to call. `outer` ones are offered by a package's own namespace or called by nothing
    else in it.
    """

    name: str
    call: object
    kind: str
    outer: bool
    kernels: frozenset
    parameters: tuple
    source: object

    @property
    def module(self) -> str:
        return self.name.partition(":")[0]


def operators(modules, uses) -> list[Operator]:
    """Every operator of some modules that leads to a kernel."""
    offered = {
        id(thing)
        for module in modules
        if hasattr(module, "__path__")
        for thing in vars(module).values()
    }
    defined = [(name, thing) for module in modules for name, thing in _defined(module)]
    called = _called([thing for _, thing in defined], uses)
    found = []
    for name, thing in defined:
        kernels = uses.kernels(thing)
        if kernels:
            found += _operator(
                name, thing, id(thing) in offered or id(thing) not in called, kernels
            )
    return found


def _called(defined, uses) -> set[int]:
    """Those of some functions and classes that another of them uses."""
    homes = {id(thing) for thing in defined} | {
        id(inspect.unwrap(thing)) for thing in defined if callable(thing)
    }
    found: set[int] = set()
    for thing in defined:
        own, seen, waiting = {id(thing), id(inspect.unwrap(thing))}, set(), [thing]
        while waiting:
            current = waiting.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            if id(current) in homes and id(current) not in own:
                found |= {id(current)}
            else:
                waiting += uses.direct(current)
    wrapped = {id(inspect.unwrap(thing)): id(thing) for thing in defined if callable(thing)}
    return found | {wrapped[each] for each in found if each in wrapped}


def _defined(module):
    """The functions and classes whose home a module is."""
    for name, thing in list(vars(module).items()):
        kind = inspect.isfunction(thing) or isinstance(thing, type)
        if kind and thing.__module__ == module.__name__ and thing.__name__ == name:
            yield f"{module.__name__}:{name}", thing


def _operator(name: str, thing, outer: bool, kernels) -> list[Operator]:
    if inspect.isfunction(thing):
        return [
            Operator(
                name, thing, FUNCTION, outer, kernels, _parameters(thing), inspect.unwrap(thing)
            )
        ]
    if issubclass(thing, torch.autograd.Function):
        forward = inspect.unwrap(thing.forward)
        parameters = tuple(p for p in _parameters(forward) if p.name != "ctx")
        return [Operator(name, thing.apply, FUNCTION, False, kernels, parameters, forward)]
    if issubclass(thing, torch.nn.Module) and thing.forward is not torch.nn.Module.forward:
        return [
            Operator(
                name,
                thing,
                LAYER,
                outer,
                kernels,
                _parameters(thing),
                inspect.unwrap(thing.forward),
            )
        ]
    return []


def _parameters(thing) -> tuple:
    try:
        return tuple(
            p for p in inspect.signature(thing).parameters.values() if p.kind not in _IGNORED
        )
    except (ValueError, TypeError):
        return ()
