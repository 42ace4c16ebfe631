"""Stand-ins for missing compiled packages: functions that take tensors and return a new one.

The computation and the result dtype of such a function are unknown without the package; most return
the dtype of their first operand. So a stand-in only replaces a module without which a subject
cannot be followed at all, and the report names it. Its calls count as launches, and their operands
are judged like those of a kernel.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

import torch

# A callback that receives the function's name and its tensors by argument.
OnCall = Callable[[str, Mapping[str, Any]], None]


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder, which receives only modules that no other finder has.

    `missing` maps the first name of each module that the `packages` import in vain to its
    importers; `replaced_names` get stand-ins.
    """

    def __init__(
        self, packages: Iterable[str], replaced_names: Iterable[str], on_call: OnCall
    ) -> None:
        self.packages, self._replaced_names = set(packages), set(replaced_names)
        self._on_call = on_call
        self.missing: dict[str, set[str]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        first = name.partition(".")[0]
        importer = _importer(sys._getframe(1))
        if importer.partition(".")[0] not in self.packages or first in self.packages:
            return None
        if first in self._replaced_names:
            return ModuleSpec(name, self, is_package=True)
        self.missing.setdefault(first, set()).add(importer)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandInModule(spec.name, self._on_call)

    def exec_module(self, module: ModuleType) -> None:
        """Execute nothing."""


class _StandInModule(ModuleType):
    """A module that has every public name."""

    def __init__(self, name: str, on_call: OnCall) -> None:
        super().__init__(name)
        self._on_call = on_call

    def __getattr__(self, name: str) -> Any:
        # Names between underscores belong to Python or are metadata, which is unknown.
        if name.startswith("__"):
            raise AttributeError(name)
        function = StandInFunction(f"{self.__name__}:{name}", self._on_call)
        setattr(self, name, function)
        return function


class StandInFunction:
    """A function that returns a tensor like its first tensor; gradients are like its operands."""

    def __init__(self, name: str, on_call: OnCall) -> None:
        self.__name__ = self.__qualname__ = name
        self._on_call = on_call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = dict(_tensors([*enumerate(args), *kwargs.items()]))
        if not tensors:
            raise NotImplementedError(f"{self.__name__} is a stand-in, called without a tensor")
        self._on_call(self.__name__, tensors)
        return _Opaque.apply(*tensors.values())


class _Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*tensors)
        return torch.empty_like(tensors[0])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return tuple(torch.empty_like(tensor) for tensor in ctx.saved_tensors)


def _tensors(arguments: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in arguments:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            yield str(name), value


def _importer(frame: FrameType | None) -> str:
    """Return the module whose import statement or search is running."""
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name.partition(".")[0] not in ("importlib", "_frozen_importlib", __name__) and (
            "importlib" not in frame.f_code.co_filename
        ):
            return str(name)
        frame = frame.f_back
    return ""
