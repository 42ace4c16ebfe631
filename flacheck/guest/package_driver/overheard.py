"""What a package's functions hand each other: an inner function is called with what its callers in
the package passed to it, not with what its signature may mean."""

import functools
import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import torch

from ..workers.values import TORCH_NAMES
from .arguments import LENGTHS
from .operators import FUNCTION, Operator
from .plans import CallPlan

_DTYPES = {getattr(torch, torch_name): name for name, torch_name in TORCH_NAMES.items()}
# Distinct calls of one function that are kept: later ones differ in sizes, mostly.
_KEPT = 3
# Values that are the same objects in the next call.
_PLAIN = (bool, int, float, str, torch.dtype, torch.device)


class NotOverheard(Exception):
    """An argument that cannot be made again."""


class Overheard:
    """Listens to the calls of inner functions, and keeps those of calls that worked."""

    def __init__(self, modules: Iterable[ModuleType], operators: Iterable[Operator]) -> None:
        self._heard: dict[str, list[dict[str, Any]]] = {}
        self._now: list[tuple[str, dict[str, Any]]] = []
        inner = [each for each in operators if each.kind == FUNCTION and not each.outer]
        functions = {id(each.call): each for each in inner if inspect.isfunction(each.call)}
        for module in modules:
            for name, thing in list(vars(module).items()):
                if id(thing) in functions:
                    setattr(module, name, self._listening(functions[id(thing)]))

    def _listening(self, operator: Operator) -> Any:
        function = operator.call
        signature = inspect.signature(function)

        @functools.wraps(function)
        def listening(*args: Any, **kwargs: Any) -> Any:
            try:
                given = signature.bind(*args, **kwargs).arguments
                described = {name: _described(name, value) for name, value in given.items()}
                self._now.append((operator.name, described))
            except (NotOverheard, TypeError):
                # The function itself says what is wrong with the call.
                pass
            return function(*args, **kwargs)

        return listening

    def ended(self, worked: bool) -> None:
        """The calls since the last word were made by a call that worked, or by one that failed."""
        now, self._now = self._now, []
        if not worked:
            return
        for name, given in now:
            kept = self._heard.setdefault(name, [])
            if len(kept) < _KEPT and given not in kept:
                kept.append(given)

    def plans(self, operator: Operator, plain: CallPlan) -> Iterator[CallPlan]:
        """The plain plan with what the operator's callers passed; a recipe knows better."""
        for number, given in enumerate(self._heard.get(operator.name, ()), 1):
            values = {**given, **plain.values}
            yield plain.but(f"as the package calls it, {number}", values=values, passed=True)


def _described(name: str, value: Any) -> Any:
    """A value as a plan holds it. Raises NotOverheard, also for where packed sequences begin: such
    numbers cannot be drawn."""
    if isinstance(value, torch.Tensor):
        if value.dtype not in _DTYPES or LENGTHS.search(name):
            raise NotOverheard
        return {"shape": tuple(value.shape), "of": _DTYPES[value.dtype]}
    if value is None or isinstance(value, _PLAIN):
        return value
    raise NotOverheard
