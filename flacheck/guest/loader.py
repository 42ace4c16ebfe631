"""Finds the kernel a request names: in our corpus, in a package, or in source sent along.

A package is imported without its `__init__` files: those of layers and models pull in torch and more.
An `__init__` runs only when something asks its module for a name that is no submodule of it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types


class LazyPackages(importlib.abc.MetaPathFinder):
    """Imports the packages below the given folders with their `__init__` put off."""

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}

    def find_spec(self, name: str, path=None, target=None):
        root = self.folders.get(name.partition(".")[0])
        if root is None:
            return None
        folder = os.path.join(root, *name.split("."))
        if not os.path.isfile(os.path.join(folder, "__init__.py")):
            return None  # a plain module: the ordinary finders have it
        spec = importlib.machinery.ModuleSpec(name, _LazyInit(folder), is_package=True)
        spec.submodule_search_locations = [folder]
        return spec


class _LazyInit(importlib.abc.Loader):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def exec_module(self, module: types.ModuleType) -> None:
        folder, ran = self._folder, []
        module.__file__ = os.path.join(folder, "__init__.py")

        def missing(name: str):
            if name.startswith("__"):
                raise AttributeError(name)
            if _is_submodule(folder, name):
                return importlib.import_module(f"{module.__name__}.{name}")
            if not ran:
                ran.append(True)
                with open(module.__file__, "rb") as file:
                    exec(compile(file.read(), module.__file__, "exec"), module.__dict__)
                if name in module.__dict__:
                    return module.__dict__[name]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        module.__getattr__ = missing


def _is_submodule(folder: str, name: str) -> bool:
    path = os.path.join(folder, name)
    return os.path.isfile(path + ".py") or os.path.isfile(os.path.join(path, "__init__.py"))


class Loader:
    """Kernels by origin, kept until another card is asked for: packages look at it when imported."""

    def __init__(self, packages: dict, corpus: str | None, scratch: str) -> None:
        self._corpus, self._scratch = corpus, scratch
        self._kernels: dict[str, object] = {}
        self._card: str | None = None
        self._finder = LazyPackages()
        sys.meta_path.insert(0, self._finder)
        for folder in packages.values():
            self._add_package(folder)

    def _add_package(self, folder: str) -> None:
        sys.path.append(folder)
        for name in os.listdir(folder):
            if os.path.isfile(os.path.join(folder, name, "__init__.py")):
                self._finder.folders.setdefault(name, folder)

    def load(self, origin: dict, card: dict):
        if card["name"] != self._card:
            self._forget()
            self._card = card["name"]
        known = repr(sorted(origin.items()))
        if known not in self._kernels:
            self._kernels[known] = self._find(origin)
        return self._kernels[known]

    def _forget(self) -> None:
        self._kernels.clear()
        for name in list(sys.modules):
            if name.partition(".")[0] in {"torch", *self._finder.folders}:
                del sys.modules[name]

    def _find(self, origin: dict):
        if "corpus" in origin:
            path = os.path.join(self._corpus, origin["corpus"] + ".py")
            return getattr(_module_from(path, "flacheck_kernels_" + origin["corpus"]), origin["name"])
        if "source" in origin:
            return getattr(self._written(origin["source"]), origin["qualname"])
        found = importlib.import_module(origin["module"])
        for part in origin["qualname"].split("."):
            found = getattr(found, part)
        return found

    def _written(self, source: str):
        """Triton reads a function's source from its file, so inline source becomes one."""
        name = "inline_" + hashlib.sha256(source.encode()).hexdigest()[:16]
        path = os.path.join(self._scratch, name + ".py")
        if not os.path.exists(path):
            with open(f"{path}.{os.getpid()}", "w") as file:
                file.write(source)
            os.replace(f"{path}.{os.getpid()}", path)
        return _module_from(path, name)


def _module_from(path: str, name: str) -> types.ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
