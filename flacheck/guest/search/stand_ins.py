"""Stand-ins for what a package's modules import and cannot have.

A module with kernels may import an optional requirement, or a name under which the package was
developed, or one that downloads files first. Its kernels can be launched all the same if they do
not use what is missing. A module that this Triton release lacks has a stand-in too, so that the
scan can report for each kernel that the release cannot import it.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .attempts import CaughtError

# Names under which packages export Triton to others: `from vllm.triton_utils import tl, triton`.
_EXPORTS = {"triton": "triton", "tl": "triton.language"}
# A kernel's decorator, or the import of Triton by a module that launches others' kernels.
_TRITON_USE = re.compile(r"^\s*(@(triton\.)?jit|(import|from)\s+triton)\b", re.MULTILINE)


def uses_triton(path: str) -> bool:
    """Return True if a Python file imports Triton or has the decorator `triton.jit`."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return bool(_TRITON_USE.search(file.read()))
    except OSError:
        return False


class AbsentObject:
    """Anything that cannot be imported.

    The object has all attributes, can be called, and sorts last.
    """

    # Packages compare it.
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _EXPORTS:
            return importlib.import_module(_EXPORTS[name])
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


class ImportStandIns:
    """Import statements that get stand-ins for what they cannot import."""

    def __init__(self) -> None:
        self._places: set[tuple[str, int]] = set()
        self._provided: list[tuple[Any, str]] = []
        self._plain_import = builtins.__import__

    def add(self, error: CaughtError) -> bool:
        """Let the import that raised an error succeed; return False if there is no other one."""
        for place in error.imports:
            if place not in self._places:
                self._places.add(place)
                return True
        return False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Provide the stand-ins until the block ends.

        Code that imports an optional package when it is called then takes its other branch.
        """
        builtins.__import__ = self._import  # type: ignore[assignment]
        try:
            yield
        finally:
            builtins.__import__ = self._plain_import
            for owner, name in self._provided:
                vars(owner).pop(name, None)

    def _import(
        self,
        name: str,
        scope: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """Import as Python does, except for the statements that get stand-ins."""
        caller = sys._getframe(1)
        module: Any
        is_plain = (caller.f_code.co_filename, caller.f_lineno) not in self._places
        try:
            module = self._plain_import(name, scope, local, names or (), level)
        except Exception:
            if is_plain:
                raise
            package = (scope or {}).get("__package__")
            path = importlib.util.resolve_name("." * level + name, package).split(".")
            # `import a.b.c` binds `a`; of `from a import b`, only `b` may raise.
            module = sys.modules.get(".".join(path) if names else path[0]) or AbsentObject()
            owner = module
            for part in () if names else path[1:]:
                owner = self._provide(owner, part)
        if not is_plain:
            for each in names or ():
                self._provide(module, each)
        return module

    def _provide(self, owner: Any, name: str) -> Any:
        """Return what an object has by a name, which it gets until the stand-ins end."""
        if name != "*" and not hasattr(owner, name):
            setattr(owner, name, AbsentObject())
            self._provided.append((owner, name))
        return getattr(owner, name, None)
