"""Stand-ins for modules that a package imports, and that are not installed or raise an error.

A module with kernels may import an optional requirement, or a name under which the package was
developed, or one that downloads files first. Its kernels can be launched all the same if they do
not use what is missing. A module that this Triton release lacks has a stand-in too, so that the
scan can report for each kernel that the release cannot import it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import re
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

_MISSING = re.compile(r"No module named '([A-Za-z_]\w*)([.\w]*)'")
_MISSING_NAME = re.compile(r"cannot import name '(\w+)' from '([.\w]+)'")
# Without these no kernel can be launched.
_REQUIRED = ("torch", "triton")
# Names under which packages export Triton to others: `from vllm.triton_utils import tl, triton`.
_EXPORTS = {"triton": "triton", "tl": "triton.language"}
# A kernel's decorator, or the import of Triton by a module that launches others' kernels.
_TRITON_USE = re.compile(r"^\s*(@(triton\.)?jit|(import|from)\s+triton)\b", re.MULTILINE)


def missing_package(message: str, own_package: str) -> str | None:
    """Return the package or module that an import error names, None if it needs no stand-in.

    A package that is not installed is absent as a whole. Of an installed package of another
    release, only the missing module is absent.
    """
    match = _MISSING.search(message)
    if match is None or match[1] == own_package:
        return None
    package, module = match.groups()
    if package in sys.modules:
        return package + module if module else None
    return None if package in _REQUIRED else package


def missing_name(message: str) -> tuple[str, str] | None:
    """Return the module and the name that it lacks by an import error, else None.

    A package may have been written for another release of the module.
    """
    match = _MISSING_NAME.search(message)
    if match is None or match[2].partition(".")[0] in _REQUIRED:
        return None
    return match[2], match[1]


def failed_module(importers: Sequence[str], name: str) -> str | None:
    """Return the module whose own import fails when another one imports it, else None.

    `importers` are the modules whose import the error passed through, innermost last.
    """
    failed = importers[-1] if importers else name
    if failed == name or name.startswith(f"{failed}.") or failed.partition(".")[0] in _REQUIRED:
        return None
    return failed


def uses_triton(path: str) -> bool:
    """Return True if a Python file imports Triton or has the decorator `triton.jit`."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return bool(_TRITON_USE.search(file.read()))
    except OSError:
        return False


class AbsentObject:
    """Any object of a module that cannot be imported.

    The object has all attributes, can be called, and sorts last.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return AbsentObject()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]):
            # A decorator leaves the function as it is.
            return args[0]
        return AbsentObject()

    def __getitem__(self, key: object) -> Any:
        return AbsentObject()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __or__(self, other: object) -> Any:
        """Return a union of types, as in annotations."""
        return AbsentObject()

    __ror__ = __or__

    def __lt__(self, other: object) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()


class _AbsentModule(types.ModuleType):
    """A module that cannot be imported."""

    # Packages compare it.
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _EXPORTS:
            return importlib.import_module(_EXPORTS[name])
        return AbsentObject()


class AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder of stand-ins for some packages and all their modules.

    Attributes:
        packages: the names of the packages, or of single modules of installed packages.
        present: the names of modules within them that have no stand-in.
    """

    def __init__(self) -> None:
        self.packages: set[str] = set()
        self.present: set[str] = set()
        self._names: set[tuple[str, str]] = set()

    def add_name(self, module: str, name: str) -> bool:
        """Let a module have a name until the stand-ins end; return False if it has one already."""
        if module not in sys.modules or (module, name) in self._names:
            return False
        self._names.add((module, name))
        setattr(sys.modules[module], name, AbsentObject())
        return True

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in self.present:
            return None
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            if ".".join(parts[:length]) in self.packages:
                return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the stand-in empty."""

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Provide the stand-ins until the block ends.

        Afterwards the packages are missing again.

        Code that imports an optional package when it is called then takes its other branch.
        """
        # The file of a module that raises an error would be found, too.
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            for owner, name in self._names:
                vars(sys.modules[owner]).pop(name, None)
            for name, module in list(sys.modules.items()):
                if isinstance(module, _AbsentModule):
                    del sys.modules[name]
                    parent, _, last = name.rpartition(".")
                    # An import binds a module in its parent, which may be an installed package.
                    vars(sys.modules.get(parent, module)).pop(last, None)
