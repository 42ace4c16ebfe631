"""Call paths: the functions of a package that led to a launch.

The path of a launch in a backward pass includes the functions that called the forward pass. torch's
engine calls a node long after those returned, so each node of a Python function stores its path
when it is made.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .launch_description import Identities, program

# The attribute of a node of torch's graph with its path.
_PATH = "_flacheck_path"
_GUEST = __name__.partition(".")[0]
_GENERATED = "torch._inductor.runtime.compile_tasks."
_LIBRARY_FOLDER = os.path.dirname(os.__file__)
_STANDARD_LIBRARY = os.path.realpath(_LIBRARY_FOLDER) + os.sep


class _Function(NamedTuple):
    """A function on a path, and the `name==version` of its package, None for the program."""

    name: str
    package: str | None


_Path = tuple[_Function, ...]


class CallPaths:
    """The call path of the current point of execution.

    `packages` are those whose operators the driver calls. Their functions are on the path even if
    the kernel belongs to another package.
    """

    def __init__(self, identities: Identities, packages: Collection[str]) -> None:
        self._identities, self._packages = identities, frozenset(packages)
        # By id, because the hash of a code object reads all of its bytes. The code objects are
        # kept, so that an id is not used twice.
        self._functions: dict[int, tuple[CodeType, _Function | None]] = {}
        self._modules: dict[str, str | None] = {}
        self._backward: CodeType | None = None
        self._undo: Callable[[], None] | None = None

    def of_launch(self, package: str | None) -> tuple[str, ...]:
        """Return the dotted names of the functions that led here, outermost first, each once.

        The names are those of the kernel's package, or of the program for its own kernel, and of
        the driven packages. A recursion does not make a path longer.
        """
        packages = {package, *self._packages}
        names = []
        for function in self._here():
            if function.package in packages:
                names.append(function.name)
        return tuple(names)

    def follow_autograd(self) -> None:
        """Store its path in each node of a Python function from now on."""
        from torch.autograd import function as autograd

        self._backward = autograd.BackwardCFunction.apply.__code__
        before = autograd.Function.__dict__["apply"]

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            result = before.__func__(cls, *args, **kwargs)
            outputs = result
            if not isinstance(result, tuple):
                outputs = (result,)
            for output in outputs:
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
        """Return the functions that lead here, without those of libraries.

        If a node has a path of its own, it replaces the path of the engine that called the node.
        """
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
        entry = self._functions.get(id(code))
        if entry is None:
            entry = code, self._describe(code, frame.f_globals)
            self._functions[id(code)] = entry
        return entry[1]

    def _describe(self, code: CodeType, scope: dict[str, Any]) -> _Function | None:
        """Return the function of a code object, None if it is not of a package or program."""
        module = scope.get("__name__")
        file = scope.get("__file__") or ""
        if not isinstance(module, str):
            return None
        # A module that Inductor writes has a hash for a name.
        if module.partition(".")[0] == _GUEST or module.startswith(_GENERATED):
            return None
        if code.co_filename.startswith("<frozen"):
            return None
        if _is_standard(os.path.realpath(file)):
            return None
        if module not in self._modules:
            self._modules[module] = None
            if file:
                self._modules[module] = self._identities.package_of(file)
        package = self._modules[module]
        if module == "__main__":
            module = program()
        # `outer.<locals>.inner` is `outer.inner`; a lambda or a comprehension has its function's
        # name.
        parts = [module]
        for part in _qualname(code, scope).split("."):
            if not part.startswith("<"):
                parts.append(part)
        return _Function(".".join(parts), package)


def _stack(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_standard(file: str) -> bool:
    if not file.startswith(_STANDARD_LIBRARY):
        return False
    path = file[len(_STANDARD_LIBRARY) :]
    below = path.partition(os.sep)[0]
    return below not in ("site-packages", "dist-packages")


def _qualname(code: CodeType, scope: dict[str, Any]) -> str:
    """Return a function's qualified name, as in Python 3.11 and later.

    Before 3.11, methods are looked up in the classes of their module.
    """
    qualname = getattr(code, "co_qualname", None)
    if qualname is not None:
        return str(qualname)
    for thing in list(scope.values()):
        if isinstance(thing, type) and thing.__module__ == scope["__name__"]:
            for part in vars(thing).values():
                if getattr(getattr(part, "__func__", part), "__code__", None) is code:
                    return f"{thing.__qualname__}.{code.co_name}"
    return code.co_name
