"""Through which functions of a package a launch came. A launch of a backward pass came through the
functions that called the forward pass, too: torch's engine calls a node long after they returned,
so each node of a Python function is told its path when it is made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .launch_description import Identities, program

# Attribute of a node of torch's graph.
_PATH = "_flacheck_path"
_GUEST = __name__.partition(".")[0]
_STANDARD_LIBRARY = os.path.realpath(os.path.dirname(os.__file__)) + os.sep


class _Function(NamedTuple):
    """A function on a path, and the `name==version` of its package, None for a program's own."""

    name: str
    package: str | None


_Path = tuple[_Function, ...]


class CallPaths:
    """The call path of what happens now; `packages` are those that are driven, whose functions
    count also where the kernel is another package's."""

    def __init__(self, identities: Identities, packages: Collection[str]) -> None:
        self._identities, self._packages = identities, frozenset(packages)
        # By id, for the hash of a code object reads all of its bytes; each kept, so that no id is
        # given twice.
        self._functions: dict[int, tuple[CodeType, _Function | None]] = {}
        self._modules: dict[str, str | None] = {}
        self._backward: CodeType | None = None
        self._undo: Callable[[], None] | None = None

    def of_launch(self, package: str | None) -> tuple[str, ...]:
        """The dotted names of the functions of the kernel's package (of the program, for a kernel
        of its own) that led here, outermost first and each once: a recursion is no longer path."""
        asked = {package, *self._packages}
        return tuple(each.name for each in self._here() if each.package in asked)

    def follow_autograd(self) -> None:
        """From here on the nodes of Python functions know their paths."""
        from torch.autograd import function as autograd

        self._backward = autograd.BackwardCFunction.apply.__code__
        before = autograd.Function.__dict__["apply"]

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            result = before.__func__(cls, *args, **kwargs)
            for output in result if isinstance(result, tuple) else (result,):
                node = getattr(output, "grad_fn", None)
                if isinstance(node, cls._backward_cls):
                    setattr(node, _PATH, self._here())
                    break
            return result

        def undo() -> None:
            autograd.Function.apply = before

        autograd.Function.apply = classmethod(apply)
        self._undo = undo

    def leave_autograd(self) -> None:
        if self._undo is not None:
            self._undo()

    def _here(self) -> _Path:
        """The functions that lead here, libraries left out; a node's own path in place of what
        called the engine."""
        inner: list[_Function] = []
        outer: _Path = ()
        for frame in _stack(sys._getframe(1)):
            if frame.f_code is self._backward:
                outer = getattr(frame.f_locals.get("self"), _PATH, ())
                if outer:
                    break
            function = self._function(frame)
            if function is not None:
                inner.append(function)
        return tuple(dict.fromkeys((*outer, *reversed(inner))))

    def _function(self, frame: FrameType) -> _Function | None:
        code = frame.f_code
        known = self._functions.get(id(code))
        if known is None:
            known = self._functions[id(code)] = code, self._named(code, frame.f_globals)
        return known[1]

    def _named(self, code: CodeType, scope: dict[str, Any]) -> _Function | None:
        """None for what is no function of a package or program."""
        module = scope.get("__name__")
        file = scope.get("__file__") or ""
        if not isinstance(module, str) or module.partition(".")[0] == _GUEST:
            return None
        if code.co_filename.startswith("<frozen") or _is_standard(os.path.realpath(file)):
            return None
        if module not in self._modules:
            self._modules[module] = self._identities.package_of(file) if file else None
        package = self._modules[module]
        if module == "__main__":
            module = program()
        # `outer.<locals>.inner` is `outer.inner`; a lambda or a comprehension is its function.
        parts = [part for part in _qualname(code, scope).split(".") if not part.startswith("<")]
        return _Function(".".join([module, *parts]), package)


def _stack(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_standard(file: str) -> bool:
    if not file.startswith(_STANDARD_LIBRARY):
        return False
    below = file[len(_STANDARD_LIBRARY) :].partition(os.sep)[0]
    return below not in ("site-packages", "dist-packages")


def _qualname(code: CodeType, scope: dict[str, Any]) -> str:
    """As Python 3.11 and later say it; before, a method is looked for in its module's classes."""
    said = getattr(code, "co_qualname", None)
    if said is not None:
        return str(said)
    for thing in list(scope.values()):
        if isinstance(thing, type) and thing.__module__ == scope["__name__"]:
            for part in vars(thing).values():
                if getattr(getattr(part, "__func__", part), "__code__", None) is code:
                    return f"{thing.__qualname__}.{code.co_name}"
    return code.co_name
