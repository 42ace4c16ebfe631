"""Whose kernel it is: its module as others would import it, and the installed package that it came
with.
"""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """`name` is `module:qualname`; `package` is `name==version`, None for a program's own kernels."""

    name: str
    package: str | None


def program() -> str:
    """What the main module would be imported as."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return spec.name
    return pathlib.Path(file).stem if file else "__main__"


class Origins:
    """`packages` maps folders to the packages that were put there."""

    def __init__(self, packages: dict) -> None:
        self._packages = {os.path.realpath(folder): package for folder, package in packages.items()}
        self._records: dict[str, list] = {}
        self._known: dict[str, str | None] = {}

    def place(self, function) -> Place:
        module = function.__module__
        if module == "__main__":
            module = program()
        qualname = function.__qualname__.replace(".<locals>", "")
        return Place(f"{module}:{qualname}", self._package(module, function.__code__.co_filename))

    def _package(self, module: str, file: str) -> str | None:
        if module not in self._known:
            self._known[module] = self._find(os.path.realpath(file))
        return self._known[module]

    def _find(self, file: str) -> str | None:
        folder = os.path.dirname(file)
        while folder != os.path.dirname(folder):
            if folder in self._packages:
                return self._packages[folder]
            owner = self._owner(folder, os.path.relpath(file, folder))
            if owner:
                return owner
            folder = os.path.dirname(folder)
        return None

    def _owner(self, folder: str, path: str) -> str | None:
        """The distribution installed in a folder whose list of files has this one."""
        if folder not in self._records:
            there = any(name.endswith(".dist-info") for name in os.listdir(folder))
            found = importlib.metadata.distributions(path=[folder]) if there else ()
            self._records[folder] = [(d, d.read_text("RECORD") or "") for d in found]
        for distribution, record in self._records[folder]:
            if f"\n{path}," in f"\n{record}":
                return f"{distribution.metadata['Name']}=={distribution.version}"
        return None
