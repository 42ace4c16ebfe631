"""A loader for the kernel of a request: from our corpus, a package, or source in the request.

A package is imported without its `__init__` files. The `__init__` of layers and models imports
torch and more, and an `__init__` that runs in the middle of an import of its own submodules fails.
A name that such a module lacks is looked up where its `__init__` imports it from. The `__init__`
runs only if it does not import the name.
"""

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
    """A finder that imports packages without running their `__init__`.

    `folders` maps the packages' names to the folders in which they lie. The `__init__` of
    `dependencies`, which only other packages import, runs at the first access to a missing name.
    """

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}
        self.dependencies: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top not in self.folders:
            return None
        folder = os.path.join(self.folders[top], *name.split("."))
        # The ordinary finders import plain modules.
        if not os.path.isfile(os.path.join(folder, "__init__.py")):
            return None
        looks_up = top not in self.dependencies
        spec = ModuleSpec(name, _LazyInit(folder, looks_up), is_package=True)
        spec.submodule_search_locations = [folder]
        return spec


class _LazyModule(types.ModuleType):
    """A package whose `__init__` was put off.

    The import system binds each submodule to its name in the package. If the `__init__` binds that
    name to something else (`from .entry import entry`), it would do so later, so this class does
    not bind the submodule.
    """

    def __setattr__(self, name: str, value: object) -> None:
        lazy = getattr(self.__spec__, "loader", None)
        is_renamed = False
        if isinstance(lazy, _LazyInit) and isinstance(value, types.ModuleType):
            is_renamed = lazy.renames(self.__name__, name)
        if not is_renamed:
            super().__setattr__(name, value)


class _LazyInit(importlib.abc.Loader):
    def __init__(self, folder: str, looks_up: bool) -> None:
        self._folder, self._looks_up, self._ran = folder, looks_up, False
        self._file = os.path.join(folder, "__init__.py")

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _LazyModule(spec.name)

    def renames(self, package: str, name: str) -> bool:
        """Return True if the `__init__` imports something else under a submodule's name."""
        _, imported_names = _read(self._file, package)
        return name in imported_names and imported_names[name] != (package, name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = self._file
        # Python calls this function for every name that the module lacks.
        module.__dict__["__getattr__"] = functools.partial(self._missing, module)

    def run(self, module: types.ModuleType) -> None:
        """Run the `__init__` that was put off, once."""
        if not self._ran:
            self._ran = True
            with open(self._file, "rb") as file:
                exec(compile(file.read(), self._file, "exec"), module.__dict__)

    def bind(self, module: types.ModuleType) -> None:
        """Bind what the `__init__` imports from modules that are there."""
        _, imported_names = _read(self._file, module.__name__)
        for name, (origin, original) in imported_names.items():
            values = vars(sys.modules[origin]) if origin in sys.modules else {}
            if original in values:
                module.__dict__[name] = values[original]

    def _missing(self, module: types.ModuleType, name: str) -> object:
        # The import system reads `__path__` and other special names, which are not looked up.
        special = name.startswith("__")
        path = os.path.join(self._folder, name)
        is_submodule = not special and not self.renames(module.__name__, name)
        for file in (path + ".py", os.path.join(path, "__init__.py")):
            if is_submodule and os.path.isfile(file):
                return importlib.import_module(f"{module.__name__}.{name}")
        if self._looks_up:
            literals, imported_names = _read(self._file, module.__name__)
            if name in literals:
                return literals[name]
            if name in imported_names:
                return _from(*imported_names[name])
        if not special:
            self.run(module)
            if name in module.__dict__:
                return module.__dict__[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")


def bind_exports(module: types.ModuleType) -> None:
    """Bind the names that a package whose `__init__` was put off exports."""
    lazy = getattr(module.__spec__, "loader", None)
    if isinstance(lazy, _LazyInit):
        lazy.bind(module)


class AliasFinder(importlib.abc.MetaPathFinder):
    """The last finder: a module without a file may be an alias that an `__init__` defines."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        parent = sys.modules.get(name.rpartition(".")[0])
        lazy = getattr(getattr(parent, "__spec__", None), "loader", None)
        if parent is None or not isinstance(lazy, _LazyInit):
            return None
        # If the `__init__` fails, the module does not exist. The importer may expect that in a
        # `try`.
        with contextlib.suppress(Exception):
            lazy.run(parent)
        module = sys.modules.get(name)
        if module is None:
            return None
        # The import system would take the spec of an existing module and load the module again.
        module.__spec__ = ModuleSpec(name, _LoadedModule(module), origin="an alias")
        return module.__spec__


class _LoadedModule(importlib.abc.Loader):
    """A loader that returns an existing module, which keeps its own spec."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec


@functools.cache
def _read(path: str, package: str) -> tuple[dict[str, object], dict[str, tuple[str, str]]]:
    """Return an `__init__`'s literals and the imported names with their origins."""
    literals: dict[str, object] = {}
    imported_names: dict[str, tuple[str, str]] = {}
    with open(path, "rb") as file:
        try:
            tree = ast.parse(file.read())
        except (SyntaxError, ValueError):
            # The same error comes up when the `__init__` runs.
            return literals, imported_names
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(ValueError):
                literals[node.targets[0].id] = ast.literal_eval(node.value)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(relative, package)
            for alias in node.names:
                imported_names[alias.asname or alias.name] = (module, alias.name)
    return literals, imported_names


def _from(module: str, name: str) -> object:
    """Return the object that `from module import name` binds."""
    origin = importlib.import_module(module)
    try:
        return getattr(origin, name)
    except AttributeError:
        return importlib.import_module(f"{module}.{name}")


class Loader:
    """Kernels by origin. They are kept until the card changes, which packages read at import.

    `turn` is called with the new card; torch or its stand-in then describes that card. Modules of
    packages are imported within `importing`. Where kernels run, the packages' dependencies are used
    and imported in the ordinary way (`whole_dependencies`).
    """

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
                # The folder also holds other modules, on which the package depends.
                own = name in package["modules"]
                if name in sys.modules and not own:
                    # torch imported the module and still uses it, so it is not imported again.
                    continue
                is_package = os.path.isfile(os.path.join(package["path"], name, "__init__.py"))
                if is_package and (own or not whole_dependencies):
                    self._finder.folders.setdefault(name, package["path"])
                    if not own:
                        self._finder.dependencies.add(name)

    def load(self, origin: KernelOrigin, card: CardRow) -> Kernel:
        """Return the variant of the kernel for a GPU.

        Raises whatever the kernel's module raises during its import.
        """
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
            return getattr(self._inline_module(origin["source"]), origin["qualname"])
        try:
            return self._of_module(origin.get("import") or origin["module"], origin["qualname"])
        except Exception as error:
            # A package's own code runs in its import and may raise anything. The capture could
            # import it, so this failure comes from this process. The capture has stand-ins for what
            # Triton lacks.
            if "cut" not in origin or _lacks_triton(error):
                raise
            return getattr(
                self._inline_module(origin["cut"]), origin["qualname"].rpartition(".")[2]
            )

    def _of_module(self, module: str, qualname: str) -> Kernel:
        with self._importing():
            try:
                part: Kernel = importlib.import_module(module)
            except ImportError:
                if not self._import_whole_dependencies():
                    raise
                part = importlib.import_module(module)
        home = part
        for name in qualname.split("."):
            try:
                part = getattr(part, name)
            except AttributeError:
                if not isinstance(getattr(part, "__wrapped__", part), types.FunctionType):
                    raise
                # The function's arguments decide what the kernel does, so it cannot be made anew.
                reason = f"{qualname} is defined within a function of {module}"
                raise ImportError(f"{reason}, and its source could not be cut out") from None
        if isinstance(part, types.FunctionType):
            return _under_another_name(home, qualname)
        return part

    def _import_whole_dependencies(self) -> bool:
        """Import dependencies in the ordinary way from now on; return False if they were before.

        Some dependencies import names of each other in an order that only their `__init__` files
        give.
        """
        lazy = set(self._finder.dependencies)
        self._finder.dependencies.clear()
        for name in list(sys.modules):
            if lazy and name.partition(".")[0] in self._finder.folders:
                del sys.modules[name]
        for name in lazy:
            del self._finder.folders[name]
        return bool(lazy)

    def is_admitted(self, origin: KernelOrigin) -> bool:
        """Return True for a kernel in a text that was checked, not trusted."""
        return "source" in origin and not self._trust

    def _inline_module(self, source: str) -> types.ModuleType:
        """Return the module of an inline source, which is written to a file for Triton.

        Raises NotAdmitted if the source is not trusted and uses names outside Triton's language.
        """
        if not self._trust:
            admission.check_names(source)
        name = "inline_" + hashlib.sha256(source.encode()).hexdigest()[:16]
        path = os.path.join(self._scratch, name + ".py")
        if not os.path.exists(path):
            # Written to another file and renamed, because another worker may read the module at any
            # time.
            with open(f"{path}.{os.getpid()}", "w") as file:
                file.write(source)
            os.replace(f"{path}.{os.getpid()}", path)
        module = module_from(path, name)
        if not self._trust:
            admission.check_functions(module, source)
        return module


def _lacks_triton(error: Exception) -> bool:
    """Return True for an import of a module or name that this Triton release does not have."""
    return isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "triton"


def _under_another_name(module: types.ModuleType, qualname: str) -> Kernel:
    """Return the kernel that was defined under a name of a host function.

    Modules keep such a kernel under another name.

    Raises AttributeError if the module lacks such a kernel.
    """
    for value in list(vars(module).values()):
        inner = value
        # Packages also wrap kernels in objects of their own, so Triton's classes are not checked.
        while not isinstance(inner, types.FunctionType) and hasattr(inner, "fn"):
            inner = inner.fn
        if inner is value or not isinstance(inner, types.FunctionType):
            continue
        if (inner.__module__, inner.__qualname__) == (module.__name__, qualname):
            return value
    raise AttributeError(f"{module.__name__}:{qualname} is a function of the host, not a kernel")


def corpus_module(corpus: str, family: str) -> types.ModuleType:
    """Return the module of a family of our own kernels in the folder `corpus`."""
    package = "flacheck_kernels"
    if package not in sys.modules:
        # Families import what they share from files beside them.
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [corpus]
    return module_from(os.path.join(corpus, family + ".py"), package + "." + family)


def module_from(path: str, name: str) -> types.ModuleType:
    """Return the module of a file; import it only once."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with contextlib.ExitStack() as stack:
        stack.callback(sys.modules.pop, name)
        spec.loader.exec_module(module)
        stack.pop_all()
    return module
