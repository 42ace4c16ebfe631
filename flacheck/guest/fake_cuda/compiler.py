"""torch's compiler, which compiles nothing on the imitated card. Its import is a third of what
imitating a card costs, and fake tensors only ask for its settings: the rest is imported when
somebody asks for more."""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_NAME = "torch._dynamo"
# What can be imported without the rest.
_SETTINGS = f"{_NAME}.config"


def put_off() -> None:
    """Have the compiler imported when it is first asked for more than its settings. To be called
    once torch is imported; where the compiler is there already, nothing happens."""
    import torch

    spec = PathFinder.find_spec(_NAME, torch.__path__)
    if _NAME in sys.modules or spec is None or spec.origin is None:
        return
    compiler = _LateModule(_NAME)
    compiler.__spec__, compiler.__loader__ = spec, spec.loader
    compiler.__file__, compiler.__package__ = spec.origin, _NAME
    compiler.__path__ = list(spec.submodule_search_locations or ())
    # torch asks that of each of its functions that the compiler is to leave alone.
    compiler.__dict__["disable"] = _left_alone
    sys.modules[_NAME] = compiler
    setattr(torch, "_dynamo", compiler)  # noqa: B010
    sys.meta_path.insert(0, _LateFinder(compiler))


def _left_alone(function: Any = None, *args: object, **kwargs: object) -> Any:
    if function is None:
        return lambda decorated: decorated
    return function


class _LateModule(ModuleType):
    """Runs the compiler's `__init__` when a name is asked for that is not there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
        if f"{_NAME}.{name}" == _SETTINGS:
            return importlib.import_module(_SETTINGS)
        self.run()
        return getattr(self, name)

    def run(self) -> None:
        """Once: from then on the module is as any other."""
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None and self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)


class _LateFinder(importlib.abc.MetaPathFinder):
    """Has the `__init__` run before any other module of the compiler: in another order they would
    import each other in circles."""

    def __init__(self, compiler: _LateModule) -> None:
        self._compiler = compiler

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(f"{_NAME}.") or name == _SETTINGS:
            return None
        sys.meta_path.remove(self)
        if type(self._compiler) is _LateModule:
            self._compiler.run()
        there = sys.modules.get(name)
        if there is None:
            return None
        # Imported meanwhile: another import would make a second one.
        return ModuleSpec(name, _Present(there), is_package=hasattr(there, "__path__"))


class _Present(importlib.abc.Loader):
    """Stands for the import of a module that is there."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
