"""Whose kernel it is: its module as others would import it, and the installed package that it came
with."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from types import FunctionType


def program() -> str:
    """What the main module would be imported as."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    if file:
        return pathlib.Path(file).stem
    return "__main__"


class Identities:
    """`packages` maps folders to the packages that were put there, each as `name==version`."""

    def __init__(self, packages: Mapping[str, str]) -> None:
        self._packages = {os.path.realpath(folder): package for folder, package in packages.items()}
        # By folder: what is installed there, each with the text that lists its files.
        self._installed: dict[str, list[tuple[Distribution, str]]] = {}
        self._by_module: dict[str, str | None] = {}

    def of(self, function: FunctionType) -> tuple[str, str | None]:
        """`module:qualname`, and `name==version` of the package, None for a program's own."""
        module = function.__module__
        if module == "__main__":
            module = program()
        if module not in self._by_module:
            self._by_module[module] = self._package(os.path.realpath(function.__code__.co_filename))
        name = f"{module}:{function.__qualname__.replace('.<locals>', '')}"
        return name, self._by_module[module]

    def _package(self, file: str) -> str | None:
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
        """The package installed in a folder whose list of files has this one."""
        if folder not in self._installed:
            self._installed[folder] = [(d, d.read_text("RECORD") or "") for d in _all(folder)]
        for distribution, files in self._installed[folder]:
            if f"\n{path}," in f"\n{files}":
                return f"{distribution.metadata['Name']}=={distribution.version}"
        return None


def _all(folder: str) -> Iterable[Distribution]:
    """The distributions of a folder; most folders above a file have none, which is seen at once."""
    if any(name.endswith(".dist-info") for name in os.listdir(folder)):
        return distributions(path=[folder])
    return ()
