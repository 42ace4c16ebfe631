"""Operators: functions, autograd functions and layers that launch kernels when called."""

import functools
import inspect
from dataclasses import dataclass
from typing import Any

from ..pysource.functions import Function

FUNCTION, LAYER, KERNEL = "function", "layer", "kernel"
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


@dataclass(frozen=True)
class Operator:
    """An operator of a package.

    Attributes:
        name: `module:name`.
        call: the function; for a layer the class.
        outer: True if a package's namespace exports it, or no other code of the package uses it.
        kernels: the kernels that it may launch.
        parameters: the function's parameters; for a layer those of the constructor.
        source: the function whose code and documentation describe the arguments.
        shared: True if functions of the package, other than layers, call it.
        sites: what the package's launches of a lone kernel pass, each with its head size.
        fp32_sites: the same if their tensors are in fp32.
        constants: the constants of a lone kernel that are not head sizes.
    """

    name: str
    call: Any
    kind: str
    outer: bool
    kernels: frozenset[str]
    parameters: tuple[inspect.Parameter, ...]
    source: Function
    shared: bool = False
    sites: tuple[tuple[int, dict[str, Any]], ...] = ()
    fp32_sites: tuple[tuple[int, dict[str, Any]], ...] = ()
    constants: frozenset[str] = frozenset()

    @property
    def is_built(self) -> bool:
        """True if an object must be built before the call."""
        return self.kind == LAYER

    @property
    def module(self) -> str:
        """The name of the module."""
        return self.name.partition(":")[0]

    @functools.cached_property
    def takes(self) -> tuple[inspect.Parameter, ...]:
        """The parameters of the function or forward."""
        if not self.is_built:
            return self.parameters
        # Without `self`.
        return parameters_of(self.source)[1:]


def parameters_of(thing: Function) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of a function or class without `*args` and `**kwargs`."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):
        return ()
    return tuple(parameter for parameter in parameters if parameter.kind not in _VARIADIC)
