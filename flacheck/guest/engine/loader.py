"""Finds the kernel a request names: in our corpus, in a package, or in source sent along.

A package is imported without its `__init__` files: those of layers and models pull in torch and
more, and one that runs in the middle of an import of its own submodules fails. A name asked of such
a module is looked up where its `__init__` imports it from; only one that it does not import makes
it run.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types


class LazyPackages(importlib.abc.MetaPathFinder):
    """Imports packages with their `__init__` put off: `folders` maps their names to the folders
    they lie in.

    Of those that are only wanted by others, `dependencies`, it runs when it is first asked for
    anything.
    """

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}
        self.dependencies: set[str] = set()

    def find_spec(self, name: str, path=None, target=None):
        root = self.folders.get(name.partition(".")[0])
        if root is None:
            return None
        folder = os.path.join(root, *name.split("."))
        if not os.path.isfile(os.path.join(folder, "__init__.py")):
            return None  # a plain module: the ordinary finders have it
        looks_up = name.partition(".")[0] not in self.dependencies
        spec = importlib.machinery.ModuleSpec(name, _LazyInit(folder, looks_up), is_package=True)
        spec.submodule_search_locations = [folder]
        return spec


class _LazyInit(importlib.abc.Loader):
    def __init__(self, folder: str, looks_up: bool) -> None:
        self._folder, self._looks_up, self._ran = folder, looks_up, False

    def run(self, module: types.ModuleType) -> None:
        """Run the `__init__` that was put off, if that was not done before."""
        if not self._ran:
            self._ran = True
            with open(module.__file__, "rb") as file:
                exec(compile(file.read(), module.__file__, "exec"), module.__dict__)

    def exec_module(self, module: types.ModuleType) -> None:
        folder = self._folder
        module.__file__ = os.path.join(folder, "__init__.py")

        def missing(name: str):
            if not name.startswith("__") and _is_submodule(folder, name):
                return importlib.import_module(f"{module.__name__}.{name}")
            literals, imported = (
                _read(module.__file__, module.__name__) if self._looks_up else ({}, {})
            )
            if name in literals:
                return literals[name]
            if name in imported:
                return _from(*imported[name])
            if not name.startswith("__"):
                self.run(module)
                if name in module.__dict__:
                    return module.__dict__[name]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        module.__getattr__ = missing


class Aliases(importlib.abc.MetaPathFinder):
    """Asked last of all: a module that no file holds may be another one's old name, which an
    `__init__` gives it.
    """

    def find_spec(self, name: str, path=None, target=None):
        parent = sys.modules.get(name.rpartition(".")[0])
        lazy = getattr(getattr(parent, "__spec__", None), "loader", None)
        if not isinstance(lazy, _LazyInit):
            return None
        with contextlib.suppress(
            Exception
        ):  # then there is no such module, as for whoever asks in a `try`
            lazy.run(parent)
        named = sys.modules.get(name)
        if named is None:
            return None
        # Of a module that is there the import system takes its own spec and would load it once
        # more.
        named.__spec__ = importlib.machinery.ModuleSpec(name, _Named(named), origin="an alias")
        return named.__spec__


class _Named(importlib.abc.Loader):
    """A module that is there already; it keeps its own spec."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec):
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec


@functools.cache
def _read(path: str, package: str) -> tuple[dict, dict]:
    """What an `__init__` says at its top level: names with literal values, and names with where
    they come from.
    """
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    literals, imported = {}, {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(ValueError):
                literals[node.targets[0].id] = ast.literal_eval(node.value)
        elif isinstance(node, ast.ImportFrom):
            above = (
                package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            )
            origin = ".".join([*above, *filter(None, [node.module])])
            imported |= {alias.asname or alias.name: (origin, alias.name) for alias in node.names}
    return literals, imported


def _from(module: str, name: str):
    """`from module import name`."""
    found = importlib.import_module(module)
    try:
        return getattr(found, name)
    except AttributeError:
        return importlib.import_module(f"{module}.{name}")


def _is_submodule(folder: str, name: str) -> bool:
    path = os.path.join(folder, name)
    return os.path.isfile(path + ".py") or os.path.isfile(os.path.join(path, "__init__.py"))


class Loader:
    """Kernels by origin, kept until another card is asked for: packages look at it when imported.

    `turn` is told the new card: torch, or what stands in for it, speaks of it from then on. Where
    kernels run, what packages depend on is imported as ever (`whole_dependencies`), for it is used.
    """

    def __init__(
        self,
        packages: dict,
        corpus: str | None,
        scratch: str,
        turn,
        whole_dependencies: bool = False,
    ) -> None:
        self._corpus, self._scratch, self._turn = corpus, scratch, turn
        self._whole_dependencies = whole_dependencies
        self._kernels: dict[str, object] = {}
        self._card: str | None = None
        self._finder = LazyPackages()
        sys.meta_path.insert(0, self._finder)
        sys.meta_path.append(Aliases())
        for package in packages.values():
            self._add_package(**package)

    def _add_package(self, path: str, modules: list) -> None:
        """A folder with a package's own `modules`, and others that it depends on."""
        sys.path.append(path)
        for name in os.listdir(path):
            if self._whole_dependencies and name not in modules:
                continue
            if os.path.isfile(os.path.join(path, name, "__init__.py")):
                self._finder.folders.setdefault(name, path)
                if name not in modules:
                    self._finder.dependencies.add(name)

    def load(self, origin: dict, card: dict):
        if card["name"] != self._card:
            self._forget()
            self._turn(card)
            self._card = card["name"]
        known = repr(sorted(origin.items()))
        if known not in self._kernels:
            self._kernels[known] = self._find(origin)
        return self._kernels[known]

    def _forget(self) -> None:
        self._kernels.clear()
        for name in list(sys.modules):
            if name.partition(".")[0] in self._finder.folders:
                del sys.modules[name]

    def _find(self, origin: dict):
        if "corpus" in origin:
            path = os.path.join(self._corpus, origin["corpus"] + ".py")
            return getattr(
                _module_from(path, "flacheck_kernels_" + origin["corpus"]), origin["name"]
            )
        if "source" in origin:
            return getattr(self._written(origin["source"]), origin["qualname"])
        found = importlib.import_module(origin.get("import") or origin["module"])
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
