"""Stand-ins for compiled packages that are not here: a module whose functions take tensors and
return one like their first.

What such a function computes, and in which dtype it answers, nobody can know without it; most
answer as their first operand is. So a stand-in is only put in place of a module without which a
subject cannot be followed at all, and the report names it. Its calls count as launches, whose
operands are judged like those of a kernel.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

import torch

# Heard of each call: the function's name, and its tensors by argument.
Heard = Callable[[str, Mapping[str, Any]], None]


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: asked for a module only when it is nowhere. `missing` maps what modules of
    the `packages` asked for, by its first name, to those that did; `standing` gets stand-ins."""

    def __init__(self, packages: Iterable[str], standing: Iterable[str], heard: Heard) -> None:
        self.packages, self._standing = set(packages), set(standing)
        self._heard = heard
        self.missing: dict[str, set[str]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        first = name.partition(".")[0]
        importer = _importer(sys._getframe(1))
        if importer.partition(".")[0] not in self.packages or first in self.packages:
            return None
        if first in self._standing:
            return ModuleSpec(name, self, is_package=True)
        self.missing.setdefault(first, set()).add(importer)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandInModule(spec.name, self._heard)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


class _StandInModule(ModuleType):
    """Has every name that is asked of it."""

    def __init__(self, name: str, heard: Heard) -> None:
        super().__init__(name)
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        # What is between underscores belongs to Python or is metadata, which nobody knows.
        if name.startswith("__"):
            raise AttributeError(name)
        function = StandInFunction(f"{self.__name__}:{name}", self._heard)
        setattr(self, name, function)
        return function


class StandInFunction:
    """Returns a tensor like the first one that it is given; gradients are like its operands."""

    def __init__(self, name: str, heard: Heard) -> None:
        self.__name__ = self.__qualname__ = name
        self._heard = heard

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = dict(_tensors([*enumerate(args), *kwargs.items()]))
        if not tensors:
            raise NotImplementedError(f"{self.__name__} is a stand-in, called without a tensor")
        self._heard(self.__name__, tensors)
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
    """The module whose import statement, or search, is running."""
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name.partition(".")[0] not in ("importlib", "_frozen_importlib", __name__) and (
            "importlib" not in frame.f_code.co_filename
        ):
            return str(name)
        frame = frame.f_back
    return ""
