"""Functions that an operator defines and returns, such as `build()` with its own kernels.

They do not exist before the operator is called, so no module contains them.
"""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from ..inference.operators import Operator
from .entry_points import as_operator
from .kernel_references import KernelReferences

# Functions that one call returns.
_MAX_FUNCTIONS = 8
_LOCAL = "<locals>"


def local_functions(result: Any) -> list[Any]:
    """Return the functions and classes in an operator's result that a function has defined."""
    functions = []
    for value in _parts(result):
        is_function = inspect.isfunction(value) or isinstance(value, type)
        if is_function and _LOCAL in value.__qualname__:
            functions.append(value)
    return functions[:_MAX_FUNCTIONS]


def _parts(result: Any) -> Iterator[Any]:
    """Yield a result, or the parts of a container."""
    if isinstance(result, (tuple, list)):
        yield from result
    elif isinstance(result, dict):
        yield from result.values()
    else:
        yield result


def returned_operators(
    references: KernelReferences, operator: Operator, functions: Iterable[Any]
) -> Iterator[Operator]:
    """Yield the functions that an operator returned as operators, if they launch kernels."""
    for function in functions:
        kernels = references.kernels(function)
        if not kernels:
            continue
        name = function.__qualname__.replace(f".{_LOCAL}", "")
        returned = as_operator(f"{operator.module}:{name}", function, False, kernels, False)
        if returned is not None:
            yield returned
