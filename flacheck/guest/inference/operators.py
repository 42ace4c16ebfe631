"""Operators: functions, autograd functions and layers that launch kernels when called."""

import functools
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..pysource.functions import Function
from . import usage

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
        parameters = tuple(inspect.signature(self.source).parameters.values())[1:]
        return _with_annotations(self.source, [p for p in parameters if p.kind not in _VARIADIC])


def parameters_of(thing: Function) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of a function or class without `*args` and `**kwargs`."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):
        return ()
    return _with_annotations(thing, [p for p in parameters if p.kind not in _VARIADIC])


def _with_annotations(
    function: Function, parameters: Iterable[inspect.Parameter]
) -> tuple[inspect.Parameter, ...]:
    """Annotate parameters without an annotation by their usage in the function."""
    parameters = tuple(parameters)
    if not any(_needs_annotation(parameter) for parameter in parameters):
        return parameters
    if isinstance(function, type):
        function = getattr(function, "__init__")  # noqa: B009
    elif inspect.ismethod(function):
        function = function.__func__
    kinds: usage.Kinds = {}
    if inspect.isfunction(function):
        kinds = usage.parameter_kinds(inspect.unwrap(function))
    result = []
    for parameter in parameters:
        if _needs_annotation(parameter) and parameter.name in kinds:
            parameter = parameter.replace(annotation=kinds[parameter.name])
        result.append(parameter)
    return tuple(result)


def _needs_annotation(parameter: inspect.Parameter) -> bool:
    missing = inspect.Parameter.empty
    return parameter.annotation is missing and parameter.default in (missing, None)
