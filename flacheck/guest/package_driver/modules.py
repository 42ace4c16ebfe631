"""The modules of the packages to drive: all that can be imported, and why the others cannot."""

import fnmatch
import functools
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType

from ..engine.loader import LazyPackages
from .calls import CaughtError, attempt

# Of CPU, for one import: some packages compile or probe while they are imported.
_SECONDS = 30.0


class NotImported(Exception):
    """A package itself cannot be imported, so there is nothing to drive: its name, the error."""


def load(names: Iterable[str], skipped: Sequence[str]) -> tuple[list[ModuleType], dict[str, str]]:
    """The modules of packages, and `module → why not` for the rest; `skipped` are patterns of their
    names. A package whose own `__init__` raises (it registers models, say, that a newer library has
    itself) is entered past its `__init__` files. Raises NotImported when that fails, too."""
    loaded: dict[str, ModuleType] = {}
    failed: dict[str, str] = {}
    for name in names:
        package = enter(name)
        before = len(loaded)
        if isinstance(package, CaughtError):
            failed[name] = package.brief()
        _below(name, skipped, loaded, failed)
        # The package itself counts for one.
        if isinstance(package, CaughtError) and len(loaded) - before <= 1:
            raise NotImported(name, package)
    return list(loaded.values()), failed


def enter(name: str) -> ModuleType | CaughtError:
    """The package; or why its own `__init__` raises: its modules can then be imported past it."""
    package = _imported(name)
    if isinstance(package, CaughtError):
        _enter_lazily(name)
        importlib.import_module(name)
    return package


def _imported(name: str) -> ModuleType | CaughtError:
    return attempt(functools.partial(importlib.import_module, name), _SECONDS)


def _enter_lazily(name: str) -> None:
    """Have the package imported anew, its `__init__` files only when one is asked for a name."""
    init = os.path.join(name, "__init__.py")
    root = next(path for path in sys.path if os.path.isfile(os.path.join(path, init)))
    for loaded in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[loaded]
    finder = LazyPackages()
    finder.folders[name] = root
    sys.meta_path.insert(0, finder)


def _below(
    name: str, skipped: Sequence[str], loaded: dict[str, ModuleType], failed: dict[str, str]
) -> None:
    module = loaded[name] = sys.modules[name]
    for entry in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        if any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in skipped):
            continue
        imported = _imported(entry.name)
        if isinstance(imported, CaughtError):
            failed[entry.name] = imported.brief()
        else:
            _below(entry.name, skipped, loaded, failed)
