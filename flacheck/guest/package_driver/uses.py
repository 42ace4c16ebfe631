"""Which kernels a function leads to, by the names in its code and what they are bound to."""

from __future__ import annotations

import inspect
import sys
import types


def kernel_name(thing) -> str | None:
    """`module:qualname` of a kernel, through the tuners and heuristics around it; None for anything
    else.
    """
    if isinstance(thing, types.ModuleType):
        return None
    while hasattr(thing, "arg_names") and hasattr(thing, "run") and hasattr(thing, "fn"):
        if inspect.isfunction(thing.fn):
            return f"{thing.fn.__module__}:{thing.fn.__qualname__.replace('.<locals>', '')}"
        thing = thing.fn
    return None


class Uses:
    """Follows names within some packages."""

    def __init__(self, packages) -> None:
        self._packages = tuple(packages)
        self._direct: dict = {}

    def kernels(self, thing) -> frozenset[str]:
        """Every kernel that a function or class may launch."""
        found, seen, waiting = set(), set(), [thing]
        while waiting:
            current = waiting.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            kernel = kernel_name(current)
            if kernel:
                found.add(kernel)
            else:
                waiting += self.direct(current)
        return frozenset(found)

    def direct(self, thing) -> list:
        """What a function or class refers to."""
        if id(thing) not in self._direct:
            self._direct[id(thing)] = (thing, list(self._referred(thing)))
        return self._direct[id(thing)][1]

    def _referred(self, thing):
        if isinstance(thing, types.ModuleType):
            return  # its names count one by one, and asking a lazy one for others may raise anything
        if isinstance(thing, (staticmethod, classmethod)):
            yield thing.__func__
        elif inspect.isfunction(thing):
            yield from self._function(thing)
        elif isinstance(thing, type) and self._ours(thing.__module__):
            yield from (part for part in vars(thing).values() if _leads(part))
            yield from (base for base in thing.__bases__ if self._ours(base.__module__))
        elif isinstance(thing, (tuple, list, set)):
            yield from thing
        elif isinstance(thing, dict):
            yield from thing.values()
        elif inspect.ismethod(thing):
            yield from (thing.__func__, thing.__self__)
        elif hasattr(thing, "__wrapped__"):
            yield thing.__wrapped__
        elif isinstance(thing, property):
            yield thing.fget

    def _function(self, function):
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not bound yet
                continue
        if hasattr(function, "__wrapped__"):
            yield function.__wrapped__
        if self._ours(function.__module__):
            yield from self._named(function.__code__, function.__globals__)

    def _named(self, code, scope: dict):
        names = code.co_names
        for name in names:
            bound = scope.get(name, sys.modules.get(name) if "." in name else None)
            if isinstance(bound, types.ModuleType):
                if self._ours(bound.__name__):
                    yield from (vars(bound)[other] for other in names if other in vars(bound))
            elif bound is not None and (_leads(bound) or kernel_name(bound)):
                yield bound
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._named(constant, scope)

    def _ours(self, module: str | None) -> bool:
        return (module or "").partition(".")[0] in self._packages


def _leads(thing) -> bool:
    return (
        inspect.isfunction(thing)
        or isinstance(thing, (type, staticmethod, classmethod, property, tuple, list, dict))
        or inspect.ismethod(thing)
        or hasattr(thing, "__wrapped__")
    )
