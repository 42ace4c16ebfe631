"""Kernels that functions and classes of a package may launch.

References are followed by the names in the code and the objects that these names are bound to.
"""

import dis
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from ..engine.outcomes import outcome_of
from ..fake_cuda.registrations import BODIES

# Autotuners and heuristics around one kernel.
_MAX_WRAPPERS = 8
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
_REFERRING_TYPES = (type, staticmethod, classmethod, property, tuple, list, dict, CustomOpDef)


def kernel_name(value: Any) -> str | None:
    """Return `module:qualname` of a kernel, also inside autotuners and heuristics, else None."""
    if isinstance(value, ModuleType):
        return None
    # Some objects have every attribute, such as mocks. A kernel's arguments have names, and the
    # number of its wrappers is small.
    for _ in range(_MAX_WRAPPERS):
        has_names = isinstance(_attribute(value, "arg_names"), (list, tuple))
        if not (has_names and hasattr(value, "run") and hasattr(value, "fn")):
            return None
        if inspect.isfunction(value.fn):
            qualified_name = value.fn.__qualname__.replace(".<locals>", "")
            return f"{value.fn.__module__}:{qualified_name}"
        value = value.fn
    return None


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute, or None: a stand-in for an absent package raises its own errors."""
    return outcome_of(lambda: getattr(value, name, None))[0]


class KernelReferences:
    """References from functions and classes to kernels within some packages."""

    def __init__(self, packages: Iterable[str]) -> None:
        self._packages = tuple(packages)
        # By id, because kernels and lists are not hashable. The objects are kept, so that no id is
        # used twice.
        self._references: dict[int, tuple[Any, list[Any]]] = {}

    def kernels(self, value: Any) -> frozenset[str]:
        """Return all kernels that a function or class may launch."""
        kernels = self.reachable(value, kernel_name)
        return frozenset(str(kernel_name(kernel)) for kernel in kernels)

    def reachable(self, value: Any, is_end: Callable[[Any], object]) -> Iterator[Any]:
        """Yield the ends that can be reached from a value; references of ends are not followed."""
        visited: set[int] = set()
        queue = [value]
        while queue:
            current = queue.pop()
            if id(current) in visited:
                continue
            visited.add(id(current))
            if is_end(current):
                yield current
                continue
            if id(current) not in self._references:
                self._references[id(current)] = (current, list(self._direct_references(current)))
            _, references = self._references[id(current)]
            queue += references

    def _direct_references(self, value: Any) -> Iterator[Any]:
        """Yield the objects that an object refers to."""
        if isinstance(value, ModuleType):
            # Only single names of modules are followed: a lazy module may raise for other names.
            return
        if isinstance(value, CustomOpDef):
            yield value._init_fn
            yield from value._backend_fns.values()
            yield value._backward_fn
        elif isinstance(value, (staticmethod, classmethod)):
            yield value.__func__
        elif inspect.isfunction(value):
            yield from self._function_references(value)
        elif isinstance(value, type) and self._is_own(value.__module__):
            yield from self._class_references(value)
        elif isinstance(value, (tuple, list, set)):
            yield from value
        elif isinstance(value, dict):
            # A lazy dictionary may import a module for each of its own values, and may fail.
            yield from dict.values(value)
        elif inspect.ismethod(value):
            yield value.__func__
            yield value.__self__
        elif _attribute(value, "__wrapped__") is not None:
            yield value.__wrapped__
        elif isinstance(value, property):
            yield value.fget

    def _class_references(self, owner: type) -> Iterator[Any]:
        """Yield the methods and base classes of a class."""
        # To look up an attribute may import modules, which add others.
        for attribute in list(vars(owner).values()):
            if _may_refer(attribute):
                yield attribute
        for base in owner.__bases__:
            if self._is_own(base.__module__):
                yield base

    def _function_references(self, function: FunctionType) -> Iterator[Any]:
        """Yield the objects in the closure and the code of a function."""
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # The variable is not assigned yet.
                continue
        if hasattr(function, "__wrapped__"):
            yield function.__wrapped__
        if self._is_own(function.__module__):
            yield from self._code_references(function.__code__, function.__globals__)

    def _code_references(self, code: CodeType, scope: dict[str, Any]) -> Iterator[Any]:
        """Yield the objects that the names in a function's code are bound to."""
        for name in code.co_names:
            value = scope.get(name)
            if value is None and "." in name:
                value = sys.modules.get(name)
            if isinstance(value, ModuleType):
                yield from self._module_references(value, code)
            elif value is not None and (_may_refer(value) or kernel_name(value)):
                yield value
        for module, name in _local_imports(code, scope):
            if self._is_own(module) and module in sys.modules:
                # Names that a lazy module would import are not read, because that may fail.
                value = vars(sys.modules[module]).get(name)
                yield value
                if isinstance(value, ModuleType):
                    # For example `from . import kernels`, whose attributes the code reads.
                    yield from self._module_references(value, code)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._code_references(constant, scope)

    def _module_references(self, module: ModuleType, code: CodeType) -> Iterator[Any]:
        """Yield the attributes of a module that code refers to."""
        if self._is_own(module.__name__):
            attributes = vars(module)
            for name in code.co_names:
                if name in attributes:
                    yield attributes[name]
        elif module is torch and "ops" in code.co_names:
            # `torch.ops.namespace.name`: the functions that are registered by that name.
            for name in code.co_names:
                yield from BODIES.bodies_named(name)

    def _is_own(self, module: str | None) -> bool:
        """Return True for modules of the packages."""
        return (module or "").partition(".")[0] in self._packages


def _local_imports(code: CodeType, scope: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the module and name of each `from … import …` inside a function.

    Many packages import their kernels there, so that the package works without Triton.
    """
    if _IMPORT_FROM not in code.co_code[::2]:
        return
    constants: list[Any] = []
    module = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constants.append(instruction.argval)
        elif instruction.opname == "IMPORT_NAME":
            # The number of dots and the names are loaded before the import.
            relative_name = "." * constants[-2] + instruction.argval
            try:
                module = importlib.util.resolve_name(relative_name, scope.get("__package__"))
            except (ImportError, ValueError):
                module = ""
        elif instruction.opname == "IMPORT_FROM" and module:
            yield module, instruction.argval


def _may_refer(value: Any) -> bool:
    """Return True for functions, classes and containers, which may refer to kernels."""
    if inspect.isfunction(value) or inspect.ismethod(value):
        return True
    if isinstance(value, _REFERRING_TYPES):
        return True
    return _attribute(value, "__wrapped__") is not None
