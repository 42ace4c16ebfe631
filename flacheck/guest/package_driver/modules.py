"""The modules of the packages to drive: all that can be imported, and why the others cannot."""

from __future__ import annotations

import fnmatch
import importlib
import os
import pkgutil
import sys

from ..engine.loader import LazyPackages
from .attempts import Failure, attempt

_SECONDS = 30.0


class NotImported(Exception):
    """A package itself cannot be imported: there is nothing to drive."""

    def __init__(self, name: str, failure: Failure) -> None:
        super().__init__(f"{name} cannot be imported: {failure.brief()}")
        self.name, self.failure = name, failure


def load(names, skipped) -> tuple[list, dict[str, str]]:
    """The modules of packages, and `module → why not` for the rest; `skipped` are patterns of their
    names.

    A package whose own `__init__` raises (it registers models, say, that a newer library has
    itself) is entered past its `__init__` files. Raises NotImported when nothing below it can be
    imported either.
    """
    found, failed = {}, {}
    for name in names:
        _, failure = attempt(lambda name=name: importlib.import_module(name), _SECONDS)
        if failure:
            failed[name] = failure.brief()
            _enter_lazily(name)
            importlib.import_module(name)
        before = len(found)
        _below(name, skipped, found, failed)
        if failure and len(found) - before <= 1:
            raise NotImported(name, failure)
    return list(found.values()), failed


def _enter_lazily(name: str) -> None:
    """Import the package anew without running its `__init__` files unless something asks them for a
    name.
    """
    root = next(
        path for path in sys.path if os.path.isfile(os.path.join(path, name, "__init__.py"))
    )
    for loaded in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[loaded]
    finder = LazyPackages()
    finder.folders[name] = root
    sys.meta_path.insert(0, finder)


def _below(name: str, skipped, found: dict, failed: dict) -> None:
    module = found[name] = sys.modules[name]
    for entry in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        if any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in skipped):
            continue
        _, failure = attempt(lambda entry=entry: importlib.import_module(entry.name), _SECONDS)
        if failure:
            failed[entry.name] = failure.brief()
        else:
            _below(entry.name, skipped, found, failed)
