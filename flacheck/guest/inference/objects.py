"""Objects that operators take besides tensors and numbers, such as configurations and metadata.

They are built by the constructors of the package's own classes.
"""

import inspect
import sys
import types
import typing
from typing import Any

import torch

from ..engine.outcomes import outcome_of
from .operators import Operator

_LIBRARIES = ("torch", "triton", "numpy")
_NOT_OBJECTS = (torch.Tensor, torch.dtype, torch.device, torch.nn.Module, torch.Generator)
_UNIONS = (typing.Union, types.UnionType)
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


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


def constructor(built_class: type) -> Operator:
    """Return the class as an operator, so that its arguments are inferred like all others."""
    parameters = []
    for parameter in inspect.signature(built_class).parameters.values():
        if parameter.kind not in _VARIADIC:
            parameters.append(parameter)
    return Operator(
        name=f"{built_class.__module__}:{built_class.__qualname__}",
        call=built_class,
        kind="object",
        outer=False,
        kernels=frozenset(),
        parameters=tuple(parameters),
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
