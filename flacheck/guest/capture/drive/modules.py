"""The modules of the packages to drive: all that can be imported, and why the others cannot."""

from __future__ import annotations

import fnmatch
import importlib
import pkgutil
import sys

from .attempts import Failure, attempt

_SECONDS = 30.0


class NotImported(Exception):
    """A package itself cannot be imported: there is nothing to drive."""

    def __init__(self, name: str, failure: Failure) -> None:
        super().__init__(f"{name} cannot be imported: {failure.brief()}")
        self.name, self.failure = name, failure


def load(names, skipped) -> tuple[list, dict[str, str]]:
    """The modules of packages, and `module → why not` for the rest; `skipped` are patterns of their names."""
    found, failed = {}, {}
    for name in names:
        _, failure = attempt(lambda name=name: importlib.import_module(name), _SECONDS)
        if failure:
            raise NotImported(name, failure)
        _below(name, skipped, found, failed)
    return list(found.values()), failed


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
