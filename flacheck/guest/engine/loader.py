"""Finds the kernel a request names: in our corpus, in a package, or in source sent along. A package
is imported without its `__init__` files: those of layers and models pull in torch and more, and one
that runs in the middle of an import of its own submodules fails. A name asked of such a module is
looked up where its `__init__` imports it from; only one that it does not import makes it run."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.abc
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec

from . import admission
from .messages import CardRow, Kernel, KernelOrigin, WorkerConfig

Turn = Callable[[CardRow], object]
# Surrounds the import of a package's module.
Importing = Callable[[], contextlib.AbstractContextManager[object]]


class LazyPackages(importlib.abc.MetaPathFinder):
    """Imports packages with their `__init__` put off: `folders` maps their names to the folders
    they lie in. That of `dependencies`, which only others want, runs when it is first asked."""

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}
        self.dependencies: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top not in self.folders:
            return None
        folder = os.path.join(self.folders[top], *name.split("."))
        # A plain module is for the ordinary finders.
        if not os.path.isfile(os.path.join(folder, "__init__.py")):
            return None
        looks_up = top not in self.dependencies
        spec = ModuleSpec(name, _LazyInit(folder, looks_up), is_package=True)
        spec.submodule_search_locations = [folder]
        return spec


class _LazyModule(types.ModuleType):
    """A package whose `__init__` was put off. The import system binds each submodule to its name in
    the package; where the `__init__` gives that name to something else (`from .entry import entry`)
    it would do so after, so the submodule is not bound."""

    def __setattr__(self, name: str, value: object) -> None:
        lazy = getattr(self.__spec__, "loader", None)
        if isinstance(lazy, _LazyInit) and isinstance(value, types.ModuleType):
            taken = lazy.renames(self.__name__, name)
        else:
            taken = False
        if not taken:
            super().__setattr__(name, value)


class _LazyInit(importlib.abc.Loader):
    def __init__(self, folder: str, looks_up: bool) -> None:
        self._folder, self._looks_up, self._ran = folder, looks_up, False
        self._file = os.path.join(folder, "__init__.py")

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _LazyModule(spec.name)

    def renames(self, package: str, name: str) -> bool:
        """Whether the `__init__` imports something else under the name of a submodule."""
        _, imported = _read(self._file, package)
        return name in imported and imported[name] != (package, name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = self._file
        # Python asks this function for every name that the module lacks.
        module.__dict__["__getattr__"] = functools.partial(self._missing, module)

    def run(self, module: types.ModuleType) -> None:
        """Run the `__init__` that was put off, if that was not done before."""
        if not self._ran:
            self._ran = True
            with open(self._file, "rb") as file:
                exec(compile(file.read(), self._file, "exec"), module.__dict__)

    def _missing(self, module: types.ModuleType, name: str) -> object:
        # The import system asks for `__path__` and others: these are never worth a look.
        special = name.startswith("__")
        path = os.path.join(self._folder, name)
        is_submodule = not special and not self.renames(module.__name__, name)
        for file in (path + ".py", os.path.join(path, "__init__.py")):
            if is_submodule and os.path.isfile(file):
                return importlib.import_module(f"{module.__name__}.{name}")
        if self._looks_up:
            literals, imported = _read(self._file, module.__name__)
            if name in literals:
                return literals[name]
            if name in imported:
                return _from(*imported[name])
        if not special:
            self.run(module)
            if name in module.__dict__:
                return module.__dict__[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")


class AliasFinder(importlib.abc.MetaPathFinder):
    """Asked last: a module that no file holds may be another one's old name in an `__init__`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        parent = sys.modules.get(name.rpartition(".")[0])
        lazy = getattr(getattr(parent, "__spec__", None), "loader", None)
        if parent is None or not isinstance(lazy, _LazyInit):
            return None
        # Where it fails there is no such module, as for whoever asks in a `try`.
        with contextlib.suppress(Exception):
            lazy.run(parent)
        named = sys.modules.get(name)
        if named is None:
            return None
        # Of a module that is there the import system takes its own spec and would load it once
        # more.
        named.__spec__ = ModuleSpec(name, _LoadedModule(named), origin="an alias")
        return named.__spec__


class _LoadedModule(importlib.abc.Loader):
    """A module that is there already; it keeps its own spec."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec


@functools.cache
def _read(path: str, package: str) -> tuple[dict[str, object], dict[str, tuple[str, str]]]:
    """Literal values at an `__init__`'s top level, and imported names with where they come from."""
    literals: dict[str, object] = {}
    imported: dict[str, tuple[str, str]] = {}
    with open(path, "rb") as file:
        try:
            tree = ast.parse(file.read())
        except (SyntaxError, ValueError):
            # It says so itself to whoever makes it run.
            return literals, imported
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(ValueError):
                literals[node.targets[0].id] = ast.literal_eval(node.value)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(relative, package)
            for alias in node.names:
                imported[alias.asname or alias.name] = (module, alias.name)
    return literals, imported


def _from(module: str, name: str) -> object:
    """`from module import name`."""
    imported = importlib.import_module(module)
    try:
        return getattr(imported, name)
    except AttributeError:
        return importlib.import_module(f"{module}.{name}")


class Loader:
    """Kernels by origin, kept until another card is asked for: packages look at it when imported.
    `turn` is told the new card: torch, or what stands in for it, speaks of it from then on, and
    modules of packages are imported within `importing`. Where kernels run, what packages depend on
    is used, and imported as ever (`whole_dependencies`)."""

    def __init__(
        self,
        config: WorkerConfig,
        turn: Turn,
        whole_dependencies: bool = False,
        importing: Importing = contextlib.nullcontext,
    ) -> None:
        self._corpus, self._scratch = config.get("corpus", ""), config["scratch"]
        self._turn, self._importing = turn, importing
        self._trust = config.get("trust", False)
        self._kernels: dict[str, Kernel] = {}
        self._card: str | None = None
        self._finder = LazyPackages()
        sys.meta_path.insert(0, self._finder)
        sys.meta_path.append(AliasFinder())
        for package in config.get("packages", {}).values():
            sys.path.append(package["path"])
            for name in os.listdir(package["path"]):
                # Beside a package's own modules lie others, on which it depends.
                own = name in package["modules"]
                if name in sys.modules and not own:
                    # torch imported it and goes on to use it: it is not imported once more.
                    continue
                is_package = os.path.isfile(os.path.join(package["path"], name, "__init__.py"))
                if is_package and (own or not whole_dependencies):
                    self._finder.folders.setdefault(name, package["path"])
                    if not own:
                        self._finder.dependencies.add(name)

    def load(self, origin: KernelOrigin, card: CardRow) -> Kernel:
        """The kernel, on that card. Raises what its module raises when it is imported."""
        if card["name"] != self._card:
            self._kernels.clear()
            for name in list(sys.modules):
                if name.partition(".")[0] in self._finder.folders:
                    del sys.modules[name]
            self._turn(card)
            self._card = card["name"]
        key = repr(sorted(origin.items()))
        if key not in self._kernels:
            self._kernels[key] = self._find(origin)
        return self._kernels[key]

    def _find(self, origin: KernelOrigin) -> Kernel:
        if "corpus" in origin:
            return getattr(corpus_module(self._corpus, origin["corpus"]), origin["name"])
        if "source" in origin:
            return getattr(self._written(origin["source"]), origin["qualname"])
        try:
            return self._of_module(origin.get("import") or origin["module"], origin["qualname"])
        except Exception:
            # A package's own code runs in its import, and may raise anything. The capture could
            # import it: what fails here is this process's own doing.
            if "cut" not in origin:
                raise
            return getattr(self._written(origin["cut"]), origin["qualname"].rpartition(".")[2])

    def _of_module(self, module: str, qualname: str) -> Kernel:
        with self._importing():
            try:
                part: Kernel = importlib.import_module(module)
            except ImportError:
                if not self._whole():
                    raise
                part = importlib.import_module(module)
        home = part
        for name in qualname.split("."):
            try:
                part = getattr(part, name)
            except AttributeError:
                if not isinstance(getattr(part, "__wrapped__", part), types.FunctionType):
                    raise
                # What its function was given decides what it does, so nobody can make it anew.
                said = f"{qualname} is defined within a function of {module}"
                raise ImportError(f"{said}, and its source could not be cut out") from None
        if isinstance(part, types.FunctionType):
            return _under_another_name(home, qualname)
        return part

    def _whole(self) -> bool:
        """From now on dependencies are imported as ever: some import names of each other that only
        their `__init__` files give in the right order. False where they were so before."""
        lazy = set(self._finder.dependencies)
        self._finder.dependencies.clear()
        for name in list(sys.modules):
            if lazy and name.partition(".")[0] in self._finder.folders:
                del sys.modules[name]
        for name in lazy:
            del self._finder.folders[name]
        return bool(lazy)

    def is_admitted(self, origin: KernelOrigin) -> bool:
        """Return True for a kernel in a text that was admitted, not trusted."""
        return "source" in origin and not self._trust

    def _written(self, source: str) -> types.ModuleType:
        """Triton reads a function's source from its file, so inline source becomes one.

        Raises NotAdmitted for source that nobody trusts and that leads out of the language.
        """
        if not self._trust:
            admission.check_names(source)
        name = "inline_" + hashlib.sha256(source.encode()).hexdigest()[:16]
        path = os.path.join(self._scratch, name + ".py")
        if not os.path.exists(path):
            # Written beside it and renamed, for another worker may read it at any moment.
            with open(f"{path}.{os.getpid()}", "w") as file:
                file.write(source)
            os.replace(f"{path}.{os.getpid()}", path)
        module = module_from(path, name)
        if not self._trust:
            admission.check_functions(module, source)
        return module


def _under_another_name(module: types.ModuleType, qualname: str) -> Kernel:
    """The kernel that was defined under a name which a function of the host bears by now: modules
    keep such a kernel under another one. Raises AttributeError where it is lost."""
    for value in list(vars(module).values()):
        inner = value
        # Not by Triton's classes: packages wrap kernels in objects of their own.
        while not isinstance(inner, types.FunctionType) and hasattr(inner, "fn"):
            inner = inner.fn
        if inner is value or not isinstance(inner, types.FunctionType):
            continue
        if (inner.__module__, inner.__qualname__) == (module.__name__, qualname):
            return value
    raise AttributeError(f"{module.__name__}:{qualname} is a function of the host, not a kernel")


def corpus_module(corpus: str, family: str) -> types.ModuleType:
    """The module of a family of our own kernels; `corpus` is the folder of these."""
    return module_from(os.path.join(corpus, family + ".py"), "flacheck_kernels_" + family)


def module_from(path: str, name: str) -> types.ModuleType:
    """The module that a file holds; the same one when it is asked for again."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
