"""The second check of source from a file, against the release that is to compile it.

flacheck checks the names in the text against a list before it sends the text. This module looks
each name up: the name must lead to a function, class or constant of Triton's language, whatever
else the release's modules contain. Triton must also parse each function as flacheck parsed it.
"""

from __future__ import annotations

import ast
import importlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

from . import releases
from .messages import Kernel, Request

# The modules that source from a file may import.
MODULES = (
    "triton",
    "triton.language",
    "triton.language.math",
    "triton.language.extra",
    "triton.language.extra.cuda",
    "triton.language.extra.hip",
    "triton.language.extra.libdevice",
    "triton.language.extra.cuda.libdevice",
    "triton.language.extra.hip.libdevice",
)
# Classes of `triton.language`. Every other class is refused.
CLASSES = frozenset(
    """
    PropagateNan async_task block_type condition const constexpr dtype pointer_type range slice
    static_range tensor tensor_descriptor tensor_descriptor_type tuple
    """.split()
)
# Functions of `triton` that releases up to 3.4 leave as plain Python.
_PLAIN = ("triton.cdiv", "triton.next_power_of_2")
# Names of `triton` that may only decorate a function. A reduction puts an autotuner around a
# kernel.
_DECORATORS = frozenset(["jit", "constexpr_function", "autotune", "heuristics", "Config"])
# Its functions are empty from 3.2 on: the compiler uses those of the target's own library.
_LIBDEVICE = "triton.language.extra.libdevice"
_LITERALS = (bool, int, float, str)


class NotAdmitted(Exception):
    """Source or a launch from a file that uses names outside Triton's language."""


def check_names(source: str) -> None:
    """Raise NotAdmitted unless every name that the source takes from Triton is admitted.

    A name that the release lacks is left to the compiler, which fails on it.
    """
    tree = ast.parse(source)
    _Names(_imported_modules(tree)).visit(tree)


def check_functions(module: types.ModuleType, source: str) -> None:
    """Raise NotAdmitted unless Triton parses each function of the module as the source has it."""
    source_functions = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            source_functions[node.name] = _without_decorators(node)
    for value in vars(module).values():
        function: Any = releases.strip_decorators(value)
        if not isinstance(function, releases.function_classes()):
            continue
        # The interpreter runs the function itself.
        if not hasattr(function, "parse"):
            continue
        if function.fn.__module__ != module.__name__:
            continue
        name = function.fn.__name__
        if _read(function) != source_functions.get(name):
            raise NotAdmitted(f"Triton reads {name} otherwise than it is written")


def _read(function: Any) -> str | None:
    """Return the function as Triton parses it, None if it is not a single function."""
    try:
        (node,) = function.parse().body
    except (AssertionError, SyntaxError, ValueError):
        return None
    return _without_decorators(node)


def check_launch(kernel: Kernel, request: Request) -> None:
    """Raise NotAdmitted for a launch with an unknown parameter or a foreign constant.

    Triton would treat an argument that is not a parameter of the kernel as an option of the
    compiler. A constant must be a function of the source or of Triton.
    """
    function = releases.unwrap(kernel)
    launch = request.get("launch") or {}
    groups = [launch.get("args", {}), launch.get("heuristics", {})]
    groups += [config.get("kwargs", {}) for config in launch.get("configs", ())]
    for group in groups:
        for name in group:
            if name not in function.arg_names:
                raise NotAdmitted(f"the argument {name} is not a parameter of the kernel")
    for name in _function_names(groups):
        value = function.fn.__globals__.get(name)
        if value is not None and not _is_own(value, function) and not _is_function(value):
            raise NotAdmitted(f"the constant {name} is not a function of the kernel's source")


def _function_names(value: Any) -> Iterator[str]:
    """Yield the names in `{"function": NAME}`, at any depth."""
    if isinstance(value, Mapping):
        if isinstance(value.get("function"), str):
            yield value["function"]
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    for item in value:
        yield from _function_names(item)


def _is_own(value: Any, function: Kernel) -> bool:
    """Return True for a function of the source that holds the kernel."""
    if not isinstance(value, releases.function_classes()):
        return False
    return bool(value.fn.__module__ == function.fn.__module__)


def _without_decorators(node: ast.FunctionDef) -> str:
    fields = dict(ast.iter_fields(node))
    fields["decorator_list"] = []
    return ast.dump(ast.FunctionDef(**fields))


def _imported_modules(tree: ast.Module) -> dict[str, types.ModuleType]:
    """Return the modules that the source imports, by the names that it gives them."""
    modules = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = _module(alias.name)
                if module is not None and alias.asname:
                    modules[alias.asname] = module
                elif module is not None:
                    modules["triton"] = _module("triton")
        elif isinstance(node, ast.ImportFrom):
            module = _module("." * node.level + (node.module or ""))
            for alias in node.names:
                end = module and follow(module, [alias.name], within=True)
                # None where the release lacks the name: the import itself fails.
                if isinstance(end, types.ModuleType):
                    modules[alias.asname or alias.name] = end
    return modules


def _module(path: str) -> Any:
    """Return a module of the language, reached as by an import statement.

    It is None if the release lacks the module, because then the import itself fails.
    """
    if path not in MODULES:
        raise NotAdmitted(f"{path} is not a module of Triton's language")
    try:
        importlib.import_module(path)
    except ImportError:
        return None
    top, *rest = path.split(".")
    module: Any = importlib.import_module(top)
    for name in rest:
        module = getattr(module, name, None)
    return module


class _Names(ast.NodeVisitor):
    """A visitor that checks every path that starts from an imported module."""

    def __init__(self, modules: Mapping[str, types.ModuleType]) -> None:
        self._modules = modules

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            _Decorator(self._modules).visit(decorator)
        for child in ast.iter_child_nodes(node):
            if child not in node.decorator_list:
                self.visit(child)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        names: list[str] = []
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            names.insert(0, root.attr)
            root = root.value
        if isinstance(root, ast.Name) and root.id in self._modules:
            self._follow(self._modules[root.id], names)
        else:
            self.visit(root)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._modules:
            raise NotAdmitted(f"the module {node.id} is used as a value")

    def _follow(self, module: types.ModuleType, names: list[str]) -> None:
        follow(module, names)


class _Decorator(_Names):
    """A visitor for the decorators of a function."""

    def _follow(self, module: types.ModuleType, names: list[str]) -> None:
        if module.__name__ != "triton" or len(names) != 1 or names[0] not in _DECORATORS:
            follow(module, names)


def follow(module: types.ModuleType, names: list[str], within: bool = False) -> Any:
    """Return the first object along a path that is not a module, None for a missing name.

    A path that ends at a module is refused unless it is part of an import (`within`).
    """
    value: Any = module
    path = _module_path(module)
    for name in names:
        path = f"{path}.{name}"
        # A module may be missing from its parent's attributes until it is imported.
        value = _module(path) if path in MODULES else getattr(value, name, None)
        if value is None:
            return None
        if not isinstance(value, types.ModuleType):
            _check(value, path)
            return value
        if path not in MODULES or value.__name__ != path:
            raise NotAdmitted(f"{path} is the module {value.__name__}")
    if not within:
        raise NotAdmitted(f"the module {path} is used as a value")
    return value


def _module_path(module: types.ModuleType) -> str:
    if module.__name__ not in MODULES:
        raise NotAdmitted(f"{module.__name__} is not a module of Triton's language")
    return module.__name__


def _check(value: Any, path: str) -> None:
    from triton.language import constexpr, dtype

    module, _, name = path.rpartition(".")
    good = _is_function(value) or isinstance(value, (dtype, constexpr))
    good = good or type(value) in _LITERALS
    if isinstance(value, type):
        good = module == "triton.language" and name in CLASSES
    elif isinstance(value, types.FunctionType) and not good:
        # A function that is only re-exported has the name of another module.
        in_place = (value.__module__, value.__name__) == (module, name)
        good = in_place and (path in _PLAIN or _is_in_library(path))
    if not good:
        raise NotAdmitted(f"{path} is not a function of Triton's language")


def _is_function(value: Any) -> bool:
    """Return True for a builtin or a JIT function of Triton's own."""
    if isinstance(value, releases.function_classes()):
        value = value.fn
    elif getattr(value, "__triton_builtin__", None) is not True:
        return False
    if not isinstance(value, types.FunctionType):
        return False
    return value.__module__.partition(".")[0] == "triton"


def _is_in_library(path: str) -> bool:
    """Return True for a name of libdevice that a target's library has as a builtin."""
    module, _, name = path.rpartition(".")
    if module != _LIBDEVICE:
        return False
    for target in ("cuda", "hip"):
        library = _module(f"triton.language.extra.{target}.libdevice")
        if _is_function(getattr(library, name, None)):
            return True
    return False
