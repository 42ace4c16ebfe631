"""Operators: functions, autograd functions, layers and methods that launch kernels when called."""

import functools
import inspect
from dataclasses import dataclass
from typing import Any

from ..pysource.functions import Function

FUNCTION, LAYER, METHOD, KERNEL = "function", "layer", "method", "kernel"
# An example in a docstring, which makes its arguments itself.
EXAMPLE = "example"
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


@dataclass(frozen=True)
class Operator:
    """An operator of a package.

    Attributes:
        name: `module:name` or `module:class.method`.
        call: the function; for a layer or method the class.
        outer: True if a package's namespace exports it, or no other code of the package uses it.
        kernels: the kernels that it may launch.
        parameters: the function's parameters; for a layer or method those of the constructor.
        source: the function whose code and documentation describe the arguments.
        shared: True if functions of the package, other than layers, call it.
    """

    name: str
    call: Any
    kind: str
    outer: bool
    kernels: frozenset[str]
    parameters: tuple[inspect.Parameter, ...]
    source: Function
    shared: bool = False

    @property
    def is_built(self) -> bool:
        """True if an object must be built before the call."""
        return self.kind in (LAYER, METHOD)

    @property
    def module(self) -> str:
        """The name of the module."""
        return self.name.partition(":")[0]

    @functools.cached_property
    def takes(self) -> tuple[inspect.Parameter, ...]:
        """The parameters of the function, forward or method."""
        if not self.is_built:
            return self.parameters
        # Without `self`.
        parameters = tuple(inspect.signature(self.source).parameters.values())[1:]
        return tuple(p for p in parameters if p.kind not in _VARIADIC)


def parameters_of(thing: Function) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of a function or class without `*args` and `**kwargs`."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):
        return ()
    return tuple(p for p in parameters if p.kind not in _VARIADIC)
