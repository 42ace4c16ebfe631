"""What functions and classes of a package lead to: the kernels that they may launch, by the names
in their code and what those are bound to."""

import dis
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from ..fake_cuda.registered import BODIES
from . import usage

# Autotuners and heuristics around one kernel.
_MOST_WRAPPERS = 8
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def kernel_name(thing: Any) -> str | None:
    """`module:qualname` of a kernel, also below tuners and heuristics; None for anything else."""
    if isinstance(thing, ModuleType):
        return None
    if isinstance(thing, _LocalKernel):
        return thing.name
    # Some objects answer every attribute, with a function or more of their kind: of kernels the
    # arguments have names, and there are not so many wrappers.
    for _ in range(_MOST_WRAPPERS):
        has_names = isinstance(getattr(thing, "arg_names", None), (list, tuple))
        if not (has_names and hasattr(thing, "run") and hasattr(thing, "fn")):
            return None
        if inspect.isfunction(thing.fn):
            return f"{thing.fn.__module__}:{thing.fn.__qualname__.replace('.<locals>', '')}"
        thing = thing.fn
    return None


@dataclass(frozen=True)
class _LocalKernel:
    """A kernel that a function defines when it is called, by the name that it will have."""

    name: str


def _local_kernels(function: FunctionType) -> Iterator[_LocalKernel]:
    for name in usage.local_kernels(function):
        yield _LocalKernel(f"{function.__module__}:{function.__qualname__}.{name}")


class Uses:
    """What functions and classes refer to, followed within some packages."""

    def __init__(self, packages: Iterable[str]) -> None:
        self._packages = tuple(packages)
        # By id, for a kernel or a list cannot be hashed; each kept, so that no id is given twice.
        self._direct: dict[int, tuple[Any, list[Any]]] = {}

    def kernels(self, thing: Any) -> frozenset[str]:
        """Every kernel that a function or class may launch."""
        names = [kernel_name(end) for end in self.reached(thing, kernel_name)]
        return frozenset(name for name in names if name)

    def of_method(self, kind: type, name: str) -> frozenset[str]:
        """Every kernel that a method may launch, also through other methods of its object."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            held = inspect.getattr_static(kind, current, None)
            if isinstance(held, (staticmethod, classmethod)):
                held = held.__func__
            elif isinstance(held, property):
                held = held.fget
            function = inspect.unwrap(held) if callable(held) else None
            if inspect.isfunction(function) and self._ours(function.__module__):
                found |= self.kernels(function)
                waiting += _names_in(function.__code__)
        return frozenset(found)

    def reached(self, thing: Any, is_end: Callable[[Any], object]) -> Iterator[Any]:
        """The things that `thing` leads to, at which `is_end` stops the walk."""
        seen: set[int] = set()
        waiting = [thing]
        while waiting:
            current = waiting.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            if is_end(current):
                yield current
                continue
            if id(current) not in self._direct:
                self._direct[id(current)] = (current, list(self._references(current)))
            waiting += self._direct[id(current)][1]

    def _references(self, thing: Any) -> Iterator[Any]:
        if isinstance(thing, ModuleType):
            # Its names count one by one, and asking a lazy one for others may raise anything.
            return
        if isinstance(thing, CustomOpDef):
            yield from (thing._init_fn, *thing._backend_fns.values(), thing._backward_fn)
        elif isinstance(thing, (staticmethod, classmethod)):
            yield thing.__func__
        elif inspect.isfunction(thing):
            yield from self._function(thing)
        elif isinstance(thing, type) and self._ours(thing.__module__):
            yield from (part for part in vars(thing).values() if _leads(part))
            yield from (base for base in thing.__bases__ if self._ours(base.__module__))
        elif isinstance(thing, (tuple, list, set)):
            yield from thing
        elif isinstance(thing, dict):
            yield from thing.values()
        elif inspect.ismethod(thing):
            yield from (thing.__func__, thing.__self__)
        elif hasattr(thing, "__wrapped__"):
            yield thing.__wrapped__
        elif isinstance(thing, property):
            yield thing.fget
        elif self._is_own_object(thing):
            # A tuner of the package's own that holds a kernel.
            yield from list(vars(thing).values())

    def _function(self, function: FunctionType) -> Iterator[Any]:
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not bound yet
                continue
        if hasattr(function, "__wrapped__"):
            yield function.__wrapped__
        if self._ours(function.__module__):
            yield from _local_kernels(function)
            yield from self._named(function.__code__, function.__globals__)

    def _named(self, code: CodeType, scope: dict[str, Any]) -> Iterator[Any]:
        names = code.co_names
        for name in names:
            bound = scope.get(name)
            if bound is None and "." in name:
                bound = sys.modules.get(name)
            if isinstance(bound, ModuleType):
                if self._ours(bound.__name__):
                    yield from (vars(bound)[other] for other in names if other in vars(bound))
                elif bound is torch and "ops" in names:
                    # `torch.ops.namespace.name`: what was registered under that name.
                    yield from (body for other in names for body in BODIES.named(other))
            elif bound is not None and (
                _leads(bound) or kernel_name(bound) or self._is_own_object(bound)
            ):
                yield bound
        for module, name in _imported_inside(code, scope):
            if self._ours(module) and module in sys.modules:
                # What a lazy module would import when it is asked may fail.
                found = vars(sys.modules[module]).get(name)
                yield found
                if isinstance(found, ModuleType):
                    # `from . import kernels`: what the code asks of it.
                    inner = _names_in(code)
                    yield from (vars(found)[other] for other in inner if other in vars(found))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._named(constant, scope)

    def _is_own_object(self, thing: Any) -> bool:
        """Whether a thing is an instance of one of the packages' classes, none of torch's among its
        bases: modules and tensors hold too much."""
        kind = type(thing)
        if not self._ours(kind.__module__):
            return False
        bases = {base.__module__.partition(".")[0] for base in kind.__mro__}
        return "torch" not in bases and isinstance(getattr(thing, "__dict__", None), dict)

    def _ours(self, module: str | None) -> bool:
        return (module or "").partition(".")[0] in self._packages


def _names_in(code: CodeType) -> list[str]:
    """The names in a function's code and in that of the functions within it."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names += _names_in(constant)
    return names


def _imported_inside(code: CodeType, scope: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The modules and names of `from … import …` within a function, which many a package writes so
    that it can be imported without Triton."""
    if _IMPORT_FROM not in code.co_code[::2]:
        return
    loaded: list[Any] = []
    module = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            loaded.append(instruction.argval)
        elif instruction.opname == "IMPORT_NAME":
            # Before it stand the count of dots and the names.
            dots = "." * loaded[-2]
            try:
                module = importlib.util.resolve_name(
                    dots + instruction.argval, scope.get("__package__")
                )
            except (ImportError, ValueError):
                module = ""
        elif instruction.opname == "IMPORT_FROM" and module:
            yield module, instruction.argval


def _leads(thing: Any) -> bool:
    kinds = (type, staticmethod, classmethod, property, tuple, list, dict, CustomOpDef)
    is_function = inspect.isfunction(thing) or inspect.ismethod(thing)
    return is_function or isinstance(thing, kinds) or hasattr(thing, "__wrapped__")
