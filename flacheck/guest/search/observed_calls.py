"""Arguments that a package's functions pass to each other.

An inner function is called with what its callers in the package passed to it, instead of with
arguments inferred from its signature.
"""

import functools
import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import torch

from ..inference.arguments import LENGTHS
from ..inference.operators import FUNCTION, Operator
from ..inference.plans import CallPlan, Plans
from ..workers.values import TORCH_NAMES

_TRITON_NAMES = {getattr(torch, torch_name): name for name, torch_name in TORCH_NAMES.items()}
# Distinct calls of one function that are kept; later calls mostly differ in sizes only.
_MAX_CALLS = 3
# Values of these types can be passed again as they are.
_PLAIN_TYPES = (bool, int, float, str, torch.dtype, torch.device)

# An argument's name → the form of its value in a plan.
_Arguments = dict[str, Any]


class NotObservable(Exception):
    """An argument that cannot be built again."""


class ObservedCalls:
    """Observes calls of inner functions and keeps those of successful calls of operators."""

    def __init__(self, modules: Iterable[ModuleType], operators: Iterable[Operator]) -> None:
        self._calls: dict[str, list[_Arguments]] = {}
        # The calls since the start of the current call of an operator.
        self._current: list[tuple[str, _Arguments]] = []
        inner_functions: dict[int, Operator] = {}
        for operator in operators:
            is_inner = operator.kind == FUNCTION and not operator.outer
            if is_inner and inspect.isfunction(operator.call):
                inner_functions[id(operator.call)] = operator
        for module in modules:
            for name, value in list(vars(module).items()):
                if id(value) in inner_functions:
                    setattr(module, name, self._observe(inner_functions[id(value)]))

    def _observe(self, operator: Operator) -> Any:
        """Wrap an operator's function so that its calls are recorded."""
        function = operator.call
        signature = inspect.signature(function)

        @functools.wraps(function)
        def observer(*args: Any, **kwargs: Any) -> Any:
            try:
                arguments = signature.bind(*args, **kwargs).arguments
                descriptions = {}
                for name, value in arguments.items():
                    descriptions[name] = _describe(name, value)
                self._current.append((operator.name, descriptions))
            except (NotObservable, TypeError):
                # The function itself raises an error for arguments that it does not accept.
                pass
            return function(*args, **kwargs)

        return observer

    def end_call(self, succeeded: bool) -> None:
        """Keep the calls since the last end of a call if that call succeeded."""
        calls = self._current
        self._current = []
        if not succeeded:
            return
        for name, arguments in calls:
            kept = self._calls.setdefault(name, [])
            if len(kept) < _MAX_CALLS and arguments not in kept:
                kept.append(arguments)

    def plans(self, operator: Operator, plain: CallPlan) -> Plans:
        """Yield the plain plan with the arguments of each call; values of a recipe remain."""
        for number, arguments in enumerate(self._calls.get(operator.name, ()), 1):
            label = f"as the package calls it, {number}"
            values = {**arguments, **plain.values}
            yield plain.with_changes(
                label, values=values, from_package=True, sizes_from="the package's own calls"
            )


def _describe(name: str, value: Any) -> Any:
    """Return the form of a value in a plan.

    Raises NotObservable, also for offsets of packed sequences, whose numbers are not described.
    """
    if isinstance(value, torch.Tensor):
        if value.dtype not in _TRITON_NAMES or LENGTHS.search(name):
            raise NotObservable
        return {"shape": tuple(value.shape), "of": _TRITON_NAMES[value.dtype]}
    if value is None or isinstance(value, _PLAIN_TYPES):
        return value
    raise NotObservable
