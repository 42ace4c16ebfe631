"""Import of all modules of the packages to capture, with the reasons why others fail."""

import fnmatch
import functools
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType

from ..engine.loader import LazyPackages, bind_exports
from .attempts import CaughtError, attempt
from .stand_ins import ImportStandIns, uses_triton

# CPU seconds for one import: some packages compile or probe while they are imported.
_IMPORT_SECONDS = 30.0

# Imports that fail in turn for one module.
_MAX_ABSENT = 8


class NotImported(Exception):
    """A package that cannot be imported: its name and the error."""


def load(
    names: Iterable[str],
    skip_patterns: Sequence[str],
    own_modules: Sequence[str] = (),
    show_progress: Callable[[str], None] = lambda activity: None,
) -> tuple[list[ModuleType], dict[str, str]]:
    """Import the modules of packages; return them, and the others' errors by name.

    A package whose `__init__` raises, because it registers models that a newer library registers
    itself, for example, is imported without its `__init__` files.

    Args:
        names: the packages.
        skip_patterns: patterns of the names of modules that are not imported.
        own_modules: all modules of the distribution; by default they are found on the disk.
        show_progress: called with the name of each module before its import.

    Raises:
        NotImported: no module of any package can be imported.
    """
    modules: dict[str, ModuleType] = {}
    failures: dict[str, CaughtError] = {}
    names = list(names)
    for name in names:
        show_progress(f"importing {name}")
        package = import_package(name)
        if isinstance(package, CaughtError):
            failures[name] = package
        modules[name] = sys.modules[name]
        for module in own_modules or _modules_on_disk(name):
            if module.startswith(f"{name}."):
                show_progress(f"importing {module}")
                _load_module(module, skip_patterns, modules, failures)
    if not modules.keys() - failures.keys():
        raise NotImported(names[0], failures[names[0]])
    _load_beside_stand_ins(skip_patterns, modules, failures, show_progress)
    for loaded_module in modules.values():
        # The search calls exported functions first.
        bind_exports(loaded_module)
    return list(modules.values()), {name: error.brief() for name, error in failures.items()}


def import_package(name: str) -> ModuleType | CaughtError:
    """Import a package; return its error if only its modules can be imported."""
    package = _import_module(name)
    if isinstance(package, CaughtError):
        if not _skip_init_files(name):
            # A single module, or a namespace package: nothing else can be imported.
            sys.modules[name] = ModuleType(name)
            return package
        importlib.import_module(name)
    return package


def _import_module(name: str) -> ModuleType | CaughtError:
    return attempt(functools.partial(importlib.import_module, name), _IMPORT_SECONDS)


def _skip_init_files(name: str) -> bool:
    """Import the package anew, and its `__init__` files only when one of their names is read."""
    init = os.path.join(name, "__init__.py")
    root = None
    for path in sys.path:
        if os.path.isfile(os.path.join(path, init)):
            root = path
            break
    if root is None:
        return False
    for module in list(sys.modules):
        if module.partition(".")[0] == name:
            del sys.modules[module]
    finder = LazyPackages()
    finder.folders[name] = root
    sys.meta_path.insert(0, finder)
    return True


def _load_module(
    name: str,
    skip_patterns: Sequence[str],
    modules: dict[str, ModuleType],
    failures: dict[str, CaughtError],
) -> None:
    """Import a module, or add its error to the failures."""
    if _is_skipped(name, skip_patterns):
        return
    module = _import_module(name)
    if not isinstance(module, CaughtError):
        modules[name] = module
        return
    failures[name] = module
    folder = os.path.join(_parent_folder(name), name.rpartition(".")[2])
    if os.path.isdir(folder):
        # Modules inside a package that fails may be imported without it.
        empty_package = ModuleType(name)
        empty_package.__path__ = [folder]
        sys.modules[name] = empty_package


def _load_beside_stand_ins(
    skip_patterns: Sequence[str],
    modules: dict[str, ModuleType],
    failures: dict[str, CaughtError],
    show_progress: Callable[[str], None],
) -> None:
    """Import modules that use Triton and failed for another one, which is not installed or raises.

    All modules that fail for something that Triton lacks are imported, because each leads to
    kernels. The errors of these modules remain among the failures, because no program can import
    the modules here.
    """
    stand_ins = ImportStandIns()
    candidates = []
    for name, error in failures.items():
        path = os.path.join(_parent_folder(name), name.rpartition(".")[2] + ".py")
        if error.imports and (uses_triton(path) or "named 'triton." in error.text):
            candidates.append(name)
    with stand_ins.installed():
        for name in candidates:
            show_progress(f"importing {name} without what cannot be imported")
            stand_ins.add(failures[name])
            for _ in range(_MAX_ABSENT):
                errors: dict[str, CaughtError] = {}
                _load_module(name, skip_patterns, modules, errors)
                # Behind the first failed import there may be others.
                if name not in errors or not stand_ins.add(errors[name]):
                    break


def _is_skipped(name: str, skip_patterns: Sequence[str]) -> bool:
    """Return True if a pattern matches a module or a package around it."""
    parts = name.split(".")
    for length in range(2, len(parts) + 1):
        prefix = ".".join(parts[:length])
        if any(fnmatch.fnmatchcase(prefix, pattern) for pattern in skip_patterns):
            return True
    return False


def _parent_folder(name: str) -> str:
    """Return the folder that contains a module's file or folder."""
    parent = sys.modules.get(name.rpartition(".")[0])
    return next(iter(getattr(parent, "__path__", ())), "")


def _modules_on_disk(name: str) -> Iterator[str]:
    """Yield the modules of an imported package, each package before its modules."""
    folders = {name: list(getattr(sys.modules[name], "__path__", ()))}
    while folders:
        package, paths = folders.popitem()
        for entry in pkgutil.iter_modules(paths, f"{package}."):
            yield entry.name
            if entry.ispkg:
                last = entry.name.rpartition(".")[2]
                folders[entry.name] = [os.path.join(path, last) for path in paths]
