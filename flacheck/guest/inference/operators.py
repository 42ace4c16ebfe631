"""Operators: functions, autograd functions and layers that launch kernels when called.

Their arguments may be objects, such as configurations and metadata, which are built by the
constructors of the package's own classes.
"""

import functools
import inspect
import sys
import types
import typing
from dataclasses import dataclass
from typing import Any

import torch

from ..engine.outcomes import outcome_of
from ..pysource.functions import Function

FUNCTION, LAYER, KERNEL = "function", "layer", "kernel"
_LIBRARIES = ("torch", "triton", "numpy")
_NOT_OBJECTS = (torch.Tensor, torch.dtype, torch.device, torch.nn.Module, torch.Generator)
_UNIONS = (typing.Union, types.UnionType)
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


def annotated_class(operator: Operator, parameter: inspect.Parameter) -> type | None:
    """Return the class of an argument; None unless it is a package's class."""
    annotation = _evaluate_annotation(operator, parameter)
    alternatives = (annotation,)
    if typing.get_origin(annotation) in _UNIONS:
        alternatives = typing.get_args(annotation)
    for alternative in alternatives:
        if _is_package_class(alternative):
            found: type = alternative
            return found
    return None


def constructor_of(built_class: type) -> Operator:
    """Return the class as an operator, so that its arguments are inferred like all others."""
    return Operator(
        name=f"{built_class.__module__}:{built_class.__qualname__}",
        call=built_class,
        kind="object",
        outer=False,
        kernels=frozenset(),
        parameters=parameters_of(built_class),
        source=built_class,
    )


def _evaluate_annotation(operator: Operator, parameter: inspect.Parameter) -> Any:
    """Return a parameter's annotation; None if its text cannot be evaluated."""
    annotation: Any = parameter.annotation
    if not isinstance(annotation, str):
        return annotation
    module_scope = getattr(sys.modules.get(operator.module), "__dict__", {})
    scope = {**vars(typing), **module_scope}
    return outcome_of(lambda: eval(annotation, scope))[0]


def _is_package_class(value: Any) -> bool:
    """Return True for classes of packages other than the common libraries."""
    if not isinstance(value, type) or issubclass(value, _NOT_OBJECTS):
        return False
    if typing.get_origin(value) is not None or hasattr(value, "dim_str"):
        # jaxtyping makes a class for each annotation of an array.
        return False
    package = value.__module__.partition(".")[0]
    return package not in sys.stdlib_module_names and package not in _LIBRARIES
