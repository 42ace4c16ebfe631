"""A late import of torch's compiler, which compiles nothing on the imitated card.

Its import takes a third of the time for imitating a card, and fake tensors only read its settings.
Everything else is imported at its first use.
"""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_NAME = "torch._dynamo"
# The module that can be imported without the rest.
_SETTINGS = f"{_NAME}.config"


def put_off() -> None:
    """Put off the compiler's import until a use beyond its settings.

    Call this after the import of torch. It does nothing if the compiler is already imported.
    """
    import torch

    spec = PathFinder.find_spec(_NAME, torch.__path__)
    if _NAME in sys.modules or spec is None or spec.origin is None:
        return
    compiler = _LateModule(_NAME)
    compiler.__spec__, compiler.__loader__ = spec, spec.loader
    compiler.__file__, compiler.__package__ = spec.origin, _NAME
    compiler.__path__ = list(spec.submodule_search_locations or ())
    # torch applies this to each of its functions that the compiler shall not compile.
    compiler.__dict__["disable"] = _left_alone
    sys.modules[_NAME] = compiler
    setattr(torch, "_dynamo", compiler)  # noqa: B010
    sys.meta_path.insert(0, _LateFinder(compiler))


# The functions that torch has asked to leave uncompiled before the compiler was there.
_left_functions: list[Any] = []


def _left_alone(function: Any = None, *args: object, **kwargs: object) -> Any:
    if function is None:
        return _left_alone
    _left_functions.append(function)
    return function


class _LateModule(ModuleType):
    """A module that runs the compiler's `__init__` at the first access to a missing name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
        if f"{_NAME}.{name}" == _SETTINGS:
            return importlib.import_module(_SETTINGS)
        self.run()
        return getattr(self, name)

    def run(self) -> None:
        """Run the `__init__` once; then the module is like any other."""
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None and self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        # torch keeps the answer to its request. Now it asks the compiler again.
        for function in _left_functions:
            vars(function).pop("__dynamo_disable", None)


class _LateFinder(importlib.abc.MetaPathFinder):
    """A finder that runs the `__init__` before any other module of the compiler.

    In another order the modules would import each other in circles.
    """

    def __init__(self, compiler: _LateModule) -> None:
        self._compiler = compiler

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(f"{_NAME}.") or name == _SETTINGS:
            return None
        sys.meta_path.remove(self)
        if type(self._compiler) is _LateModule:
            self._compiler.run()
        module = sys.modules.get(name)
        if module is None:
            return None
        # The `__init__` has imported the module; another import would make a second one.
        return ModuleSpec(name, _Present(module), is_package=hasattr(module, "__path__"))


class _Present(importlib.abc.Loader):
    """A loader for a module that is already imported."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
