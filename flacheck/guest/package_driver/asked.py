"""What a package asks of Triton, and what it is answered: where the answers are the same under
another release, so is what the package launches.

Watched are Triton's modules (each name that is read of them, or is missing), imports of them and
what the environment says of their version. What Triton asks of itself says nothing, nor does what
torch and the standard library ask."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.abc
import importlib.metadata
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

from ..recorder.session import Announcing

_GUEST = __name__.partition(".")[0]
_TRITON = "triton"
# Who asks on nobody's behalf: what differs between releases for the guest is its own affair, except
# for those that read the package's kernels.
_SILENT = ("torch", _TRITON, *sys.stdlib_module_names)
_READERS = (f"{_GUEST}.workers.cut", f"{_GUEST}.package_driver.usage")
# Read of every module by whoever looks at it.
_MACHINERY = ("__name__", "__spec__", "__path__", "__loader__", "__class__", "__dict__")
# Their results are compared themselves, in the table of kernels.
_DECORATORS = ("jit", "autotune", "heuristics")
MISSING = "missing"


class TritonAnswers:
    """`answers` by question, as they come; one that can never be the same again is empty."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        # What was read last.
        self._read: dict[str, object] = {}
        self._finder = _Finder(self)

    def begin(self) -> None:
        """To be called before Triton is imported."""
        sys.meta_path.insert(0, self._finder)
        plain = importlib.metadata.distribution

        @functools.wraps(plain)
        def distribution(name: str) -> Any:
            found = plain(name)
            if name.lower().startswith(_TRITON):
                self.answers[f"distribution {name}"] = found.version
            return found

        setattr(importlib.metadata, "distribution", distribution)  # noqa: B010

    def end(self) -> None:
        sys.meta_path.remove(self._finder)

    def imported(self, name: str, is_there: bool) -> None:
        # Triton itself is there in every capture, whoever imports it first.
        if name != _TRITON and _asks(_asker()):
            self.answers[f"import {name}"] = str(is_there)

    def watch(self, name: str) -> None:
        """From now on note what is read of a module."""
        module = sys.modules.get(name)
        if type(module) is ModuleType:
            module.__class__ = _watched(self)

    def read(self, module: str, name: str, value: object) -> None:
        if name in _MACHINERY or not _asks(_asker()):
            return
        question = f"{module} {name}"
        # Functions that are called a thousand times ask as often, and a fingerprint reads sources.
        if question not in self.answers or self._read.get(question) is not value:
            self._read[question] = value
            self.answers[question] = fingerprint(value)

    def missing(self, module: str, name: str) -> None:
        if name not in _MACHINERY and _asks(_asker()):
            self.answers[f"{module} {name}"] = MISSING


@functools.cache
def _watched(answers: TritonAnswers) -> type[ModuleType]:
    plain = ModuleType.__getattribute__

    class WatchedModule(ModuleType):
        """A module that tells what is read of it."""

        def __getattribute__(self, name: str) -> Any:
            try:
                value = plain(self, name)
            except AttributeError:
                answers.missing(plain(self, "__name__"), name)
                raise
            answers.read(plain(self, "__name__"), name, value)
            return value

        def __reduce_ex__(self, protocol: Any) -> Any:
            # Triton copies what kernels read of their modules, unless it is plainly a module.
            return importlib.import_module, (plain(self, "__name__"),)

    return WatchedModule


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself, but sees which modules of Triton's are looked for."""

    def __init__(self, answers: TritonAnswers) -> None:
        self._answers = answers
        self._inside = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if self._inside or name.partition(".")[0] != _TRITON:
            return None
        self._inside = True
        try:
            spec = _found(name, path, target)
        finally:
            self._inside = False
        self._answers.imported(name, spec is not None)
        if spec is not None and spec.loader is not None:
            spec.loader = Announcing(spec.loader, lambda: self._answers.watch(name))
        return spec


def _found(name: str, path: Any, target: Any) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def _asker() -> str:
    """The module that asks: the innermost that is neither this one nor the import system. Code
    without a module, as Triton writes for each kernel's arguments, is of who called it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name and name != __name__ and not name.startswith("importlib."):
            return str(name)
        frame = frame.f_back
    return "?"


def _asks(asker: str) -> bool:
    top = asker.partition(".")[0]
    if top == _GUEST:
        return asker in _READERS
    return top not in _SILENT


def fingerprint(value: Any) -> str:
    """The same for two things that behave alike to a host program; empty for what nobody knows."""
    if isinstance(value, ModuleType):
        return f"module {ModuleType.__getattribute__(value, '__name__')}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    # Since 3.5 functions for host and kernel stand in objects, as jit functions do.
    inner = value
    while not isinstance(inner, (type, types.FunctionType)) and hasattr(inner, "fn"):
        inner = inner.fn
    home = str(getattr(inner, "__module__", None) or type(inner).__module__)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    if home.startswith(f"{_TRITON}.language"):
        # Only kernels run them; a dtype says its name.
        said = ""
        if not callable(inner):
            said = repr(inner)
        return f"{name} {said}"
    if name in _DECORATORS and home.startswith(f"{_TRITON}."):
        return name
    if type(inner).__name__ in ("DriverConfig", "LazyProxy") or home.startswith(_GUEST):
        return f"{type(inner).__name__} {name}"
    if isinstance(inner, (type, types.FunctionType)):
        return _written(inner)
    return ""


def _written(thing: Any, within: tuple[Any, ...] = ()) -> str:
    """The code of a function or class, without what decorates it, with that of the functions of
    its module that it calls."""
    try:
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    except (OSError, SyntaxError, TypeError, IndexError):
        return ""
    tree.decorator_list = []
    texts = [ast.dump(tree)]
    if isinstance(thing, types.FunctionType):
        called = (thing.__globals__.get(name) for name in thing.__code__.co_names)
        for inner in called:
            if isinstance(inner, types.FunctionType) and inner not in (thing, *within):
                texts.append(_written(inner, (thing, *within)))
    if "" in texts:
        return ""
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


def same_answers(asked: Mapping[str, str], now: Callable[[str, str], str]) -> str | None:
    """The first of the questions that is answered otherwise by `now(module, name)`; None where all
    are answered alike."""
    for question, answer in asked.items():
        subject, _, name = question.partition(" ")
        if subject in ("import", "distribution") or not answer or now(subject, name) != answer:
            return question
    return None


def answered(module: str, name: str) -> str:
    """What a question is answered here."""
    there = sys.modules.get(module)
    if there is None:
        return ""
    value = getattr(there, name, MISSING)
    if value is MISSING:
        return MISSING
    return fingerprint(value)
