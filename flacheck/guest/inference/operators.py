"""Operators: functions, autograd functions, layers and methods that launch kernels when called."""

import functools
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..pysource.functions import Function, function_text
from . import usage

FUNCTION, LAYER, METHOD, KERNEL = "function", "layer", "method", "kernel"
# A name that a function reads from its `**kwargs`.
_KEYWORD_IN_KWARGS = re.compile(r"kwargs(?:\.get|\.pop)?[(\[]\s*['\"](\w+)['\"]")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
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
        method: the name of the method.
    """

    name: str
    call: Any
    kind: str
    outer: bool
    kernels: frozenset[str]
    parameters: tuple[inspect.Parameter, ...]
    source: Function
    shared: bool = False
    method: str = ""

    @property
    def is_built(self) -> bool:
        """True if an object must be built before the call."""
        return self.kind in (LAYER, METHOD)

    @property
    def is_method(self) -> bool:
        """True for a method, also a static one, of a class that is not a layer."""
        return "." in self.name.partition(":")[2]

    @property
    def module(self) -> str:
        """The name of the module."""
        return self.name.partition(":")[0]

    @functools.cached_property
    def takes(self) -> tuple[inspect.Parameter, ...]:
        """The parameters of the function, forward or method, and names read from its kwargs."""
        parameters = self.parameters
        if self.is_built:
            # Without `self`.
            signature = inspect.signature(self.source)
            parameters = tuple(signature.parameters.values())[1:]
            parameters = _with_annotations(self.source, parameters)
        by_name = {p.name: p for p in parameters if p.kind not in _VARIADIC}
        if self.is_built:
            if not any(p.kind in _POSITIONAL for p in by_name.values()):
                by_name = {p.name: p for p in _unpacked_parameters(self.source)} | by_name
            if len(by_name) == len(parameters):
                return parameters
        for name in _KEYWORD_IN_KWARGS.findall(function_text(self.source)):
            optional = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            by_name.setdefault(name, optional)
        return tuple(by_name.values())


def parameters_of(thing: Function) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of a function or class, or the names that it unpacks from `*args`."""
    try:
        all_parameters = list(inspect.signature(thing).parameters.values())
    except (ValueError, TypeError):
        return ()
    parameters = [p for p in all_parameters if p.kind not in _VARIADIC]
    if all_parameters and not parameters and inspect.isfunction(thing):
        parameters = _unpacked_parameters(inspect.unwrap(thing))
    return _with_annotations(thing, parameters)


def _unpacked_parameters(function: Function) -> list[inspect.Parameter]:
    """Return the names that a function unpacks from its `*args` as parameters."""
    names = dict.fromkeys(usage.positional_names(function))
    return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]


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
