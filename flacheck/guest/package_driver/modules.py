"""The modules of the packages to drive: all that can be imported, and why the others cannot."""

import fnmatch
import functools
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType

from torch._subclasses.fake_tensor import FakeTensor

from ..engine.loader import LazyPackages
from .calls import CaughtError, attempt

# Of CPU, for one import: some packages compile or probe while they are imported.
_SECONDS = 30.0


class NotImported(Exception):
    """A package itself cannot be imported, so there is nothing to drive: its name, the error."""


def load(
    names: Iterable[str], skipped: Sequence[str], own: Sequence[str] = ()
) -> tuple[list[ModuleType], dict[str, str]]:
    """The modules of packages, and `module → why not` for the rest; `skipped` are patterns of their
    names. `own` names all modules of the distribution: without it they are looked for on the disk.
    A package whose own `__init__` raises (it registers models, say, that a newer library has
    itself) is entered past its `__init__` files. Raises NotImported when that fails, too."""
    loaded: dict[str, ModuleType] = {}
    failed: dict[str, str] = {}
    errors: dict[str, CaughtError] = {}
    names = list(names)
    for name in names:
        package = enter(name)
        before = len(loaded)
        if isinstance(package, CaughtError):
            failed[name] = package.brief()
            errors[name] = package
        loaded[name] = sys.modules[name]
        for module in own or _on_disk(name):
            if module.startswith(f"{name}."):
                _load_one(module, skipped, loaded, failed)
        # The package itself counts for one.
        if name in errors and len(loaded) - before > 1:
            del errors[name]
    if len(errors) == len(names):
        for name, error in errors.items():
            raise NotImported(name, error)
    for each in loaded.values():
        _hide_fakes(each)
    return list(loaded.values()), failed


class NoFakeTensor:
    """Stands in a package's modules for the class of our tensors: a package that asks whether a
    tensor is fake asks whether torch.compile traces it, and would launch nothing then."""


def _hide_fakes(module: ModuleType) -> None:
    for name, thing in list(vars(module).items()):
        if thing is FakeTensor:
            setattr(module, name, NoFakeTensor)


def enter(name: str) -> ModuleType | CaughtError:
    """The package; or why its own `__init__` raises: its modules can then be imported past it."""
    package = _imported(name)
    if isinstance(package, CaughtError):
        if not _enter_lazily(name):
            # A module of its own, or a name that only leads to a folder: there is nothing below.
            sys.modules[name] = ModuleType(name)
            return package
        importlib.import_module(name)
    return package


def _imported(name: str) -> ModuleType | CaughtError:
    return attempt(functools.partial(importlib.import_module, name), _SECONDS)


def _enter_lazily(name: str) -> bool:
    """Have the package imported anew, its `__init__` files only when one is asked for a name."""
    init = os.path.join(name, "__init__.py")
    roots = (path for path in sys.path if os.path.isfile(os.path.join(path, init)))
    root = next(roots, None)
    if root is None:
        return False
    for loaded in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[loaded]
    finder = LazyPackages()
    finder.folders[name] = root
    sys.meta_path.insert(0, finder)
    return True


def _load_one(
    name: str, skipped: Sequence[str], loaded: dict[str, ModuleType], failed: dict[str, str]
) -> None:
    parts = name.split(".")
    around = [".".join(parts[:length]) for length in range(2, len(parts) + 1)]
    if any(fnmatch.fnmatchcase(each, pattern) for each in around for pattern in skipped):
        return
    imported = _imported(name)
    if not isinstance(imported, CaughtError):
        loaded[name] = imported
        return
    failed[name] = imported.brief()
    folder = os.path.join(_folder_of(name), parts[-1])
    if os.path.isdir(folder):
        # What lies below it may be there without it.
        bare = ModuleType(name)
        bare.__path__ = [folder]
        sys.modules[name] = bare


def _folder_of(name: str) -> str:
    """The folder in which a module's file or folder lies."""
    above = sys.modules.get(name.rpartition(".")[0])
    return next(iter(getattr(above, "__path__", ())), "")


def _on_disk(name: str) -> Iterator[str]:
    """The modules below a package that has been imported, each package before its modules."""
    for folder in getattr(sys.modules[name], "__path__", ()):
        for entry in pkgutil.iter_modules([folder], f"{name}."):
            yield from _with_all_below(entry.name, folder, entry.ispkg)


def _with_all_below(name: str, folder: str, is_package: bool) -> Iterator[str]:
    yield name
    if is_package:
        inner = os.path.join(folder, name.rpartition(".")[2])
        for entry in pkgutil.iter_modules([inner], f"{name}."):
            yield from _with_all_below(entry.name, inner, entry.ispkg)
