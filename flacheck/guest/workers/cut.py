"""A kernel cut out of its program: one module that imports only triton.

The module holds everything that the kernel uses. Values from the kernel's surroundings are frozen
as they are now: constants by value, helper functions by source, names of the language by their
path. This also decides branches over the release of Triton.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import hashlib
import inspect
import math
import re
import textwrap
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..engine.messages import Kernel
from .values import LANGUAGE_NAMES

# Values by name, in a module or among arguments.
Scope = dict[str, Any]
_HEAD = "import triton\nimport triton.language as tl\n"
# A type name as in Triton's signatures: `*fp32`, `i64`.
_TYPE = re.compile(r"[*a-z0-9]{1,16}")
# Python's own types. Triton derives the dtype of a number without one from them.
_PLAIN_TYPES = (bool, int, float)
# What a call with fixed arguments may raise.
_ERRORS = (TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError)
# The options of @triton.jit that change how a launch is specialised or compiled.
_FLAGS = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline")


@dataclass(frozen=True)
class CutResult:
    """A module's text, or the reason why there is none.

    `functions` are those in the text, or those reached before the failure.
    """

    text: str | None
    reason: str | None = None
    functions: tuple[Kernel, ...] = ()

    @property
    def digest(self) -> str | None:
        """The name by which launches refer to the text."""
        if self.text is None:
            return None
        digest = hashlib.sha256(self.text.encode())
        return digest.hexdigest()[:16]


def passed_functions(function: Kernel, bound: Scope) -> dict[Kernel, str]:
    """Return the jit functions among a launch's arguments, with their names in the module.

    Functions in tuples are included. A function whose name is already in use gets a number.
    """
    # Python hashes a kernel by its source and all sources that it reads, which takes long.
    passed = list(_functions(bound.values()))
    if not passed:
        return {}
    names = {function: function.fn.__name__}
    for value in passed:
        if value not in names:
            names[value] = _free(value.fn.__name__, names.values())
    del names[function]
    return names


def _functions(values: Iterable[Any]) -> Iterator[Kernel]:
    for value in values:
        # Classes are compared by name, because each release has classes of its own and Triton may
        # not be imported yet.
        if type(value).__name__ == "constexpr":
            value = value.value
        if type(value).__name__ == "JITFunction":
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _functions(value)


def _free(name: str, used_names: Iterable[str]) -> str:
    free, number = name, 2
    while free in used_names:
        free, number = f"{name}_{number}", number + 1
    return free


class Cutter:
    """Cuts each kernel once for each set of functions that a launch passes."""

    def __init__(self) -> None:
        # By the identities of the functions, with the functions, which keeps them alive.
        self._done: dict[tuple[int, ...], tuple[tuple[Kernel, ...], CutResult]] = {}

    def cut(self, function: Kernel, functions: dict[Kernel, str]) -> CutResult:
        """Return the module of a kernel; `functions` are those of `passed_functions`."""
        roots = (function, *functions)
        key = tuple(map(id, roots))
        if key not in self._done:
            root_names = {id(root): name for root, name in functions.items()}
            module = _CutModule({id(function): function.fn.__name__, **root_names})
            text: str | None = None
            reason: str | None = None
            try:
                for root in roots:
                    module.function(root)
                text = module.text()
                ast.parse(text)
            except (UnwritableValue, SyntaxError, OSError) as error:
                text, reason = None, str(error)
            result = CutResult(text, reason, tuple(module.functions))
            self._done[key] = roots, result
        return self._done[key][1]


class _CutModule:
    """The text in progress: each function and constant once, under a unique name."""

    def __init__(self, roots: dict[int, str]) -> None:
        # The names of the functions that are cut out, by the functions' identities.
        self._roots = roots
        # The key is a function's id, or a constant's name, text and whether it is a `tl.constexpr`.
        self._names: dict[object, str] = {}
        self._used_names: set[str] = {"tl", "triton", *roots.values()}
        self._pieces: list[str] = []
        # Modules of triton outside its language, with the names under which they are imported.
        self._imports: dict[str, str] = {}
        self.functions: list[Kernel] = []

    def text(self) -> str:
        imports = ""
        for module, name in sorted(self._imports.items()):
            imports += f"import {module} as {name}\n"
        pieces = "\n\n\n".join(self._pieces)
        return f"{_HEAD}{imports}\n\n{pieces}\n"

    def function(self, function: Kernel) -> str:
        """Return the name of a jit function in the module; add the function if needed."""
        key = id(function)
        if key not in self._names:
            name = self._roots.get(key)
            name = name or self._free(function.fn.__name__)
            self._names[key] = name
            self.functions.append(function)
            self._pieces.append(self._function_text(function, name))
        return self._names[key]

    def constant(self, name: str, value: Any, is_constexpr: bool) -> str:
        """Return a constant's name in the module; add it or raise UnwritableValue."""
        text = literal(value)
        key = (name, text, is_constexpr)
        if key not in self._names:
            declaration = self._names[key] = self._free(name)
            if is_constexpr:
                declaration += ": tl.constexpr"
            self._pieces.append(f"{declaration} = {text}")
        return self._names[key]

    def path(self, value: Any) -> str:
        """Return the path to a part of triton, or raise UnwritableValue."""
        path, module = path_of(value)
        if module is None:
            return path
        # The module gets a name of its own, because the compiler replaces a module like libdevice
        # by the GPU's functions only where a name stands for it. In 3.3 it does not do so at the
        # end of a path.
        if module not in self._imports:
            name = module.rpartition(".")[2]
            self._imports[module] = self._free(name)
        return self._imports[module] + path[len(_short(module)) :]

    def _free(self, name: str) -> str:
        free = _free(name, self._used_names)
        self._used_names.add(free)
        return free

    def _function_text(self, function: Kernel, name: str) -> str:
        source = textwrap.dedent(function.src)
        tree: Any = ast.parse(source).body[0]
        tree.name, tree.decorator_list, tree.returns = name, [], None
        self._sign(tree.args, function.fn)
        # Globals, and the variables of the enclosing functions.
        scope = dict(function.fn.__globals__)
        if function.fn.__closure__:
            scope.update(inspect.getclosurevars(function.fn).nonlocals)
        constexpr_names = _constexpr_names(function.fn)
        rewriter = _Rewriter(self, scope, constexpr_names, _locals(tree))
        tree.body = [rewriter.visit(statement) for statement in tree.body]
        return f"{_decorator(function)}\n{ast.unparse(tree)}"

    def _sign(self, arguments: ast.arguments, function: Any) -> None:
        """Write annotations and defaults as values, not as the names that stood for them."""
        signature = inspect.signature(function).parameters
        positional = [*arguments.posonlyargs, *arguments.args]
        for parameter in [*positional, *arguments.kwonlyargs]:
            parameter.annotation = self._annotation(signature[parameter.arg].annotation)
        arguments.defaults = []
        for parameter in positional:
            default = self._default(signature[parameter.arg])
            if default is not None:
                arguments.defaults.append(default)
        arguments.kw_defaults = []
        for parameter in arguments.kwonlyargs:
            default = self._default(signature[parameter.arg])
            arguments.kw_defaults.append(default)

    def _default(self, parameter: inspect.Parameter) -> ast.expr | None:
        if parameter.default is inspect.Parameter.empty:
            return None
        return self._value(parameter.default)

    def _annotation(self, annotation: Any) -> ast.expr | None:
        """Return an annotation that Triton reads: `constexpr` or a type name, else None."""
        if isinstance(annotation, str):
            for word in ("constexpr", "const"):
                if word in annotation:
                    return _expression(f"tl.{word}")
            if _TYPE.fullmatch(annotation):
                return ast.Constant(annotation)
        if annotation in _PLAIN_TYPES:
            return _expression(annotation.__name__)
        if str(getattr(annotation, "__module__", "")).startswith("triton"):
            return self._value(annotation)
        return None

    def _value(self, value: Any) -> ast.expr:
        try:
            return _expression(literal(value))
        except UnwritableValue:
            return _expression(self.path(value))


class _Rewriter(ast.NodeTransformer):
    """Replaces every name that a function reads from outside by its name in the module."""

    def __init__(
        self,
        module: _CutModule,
        scope: Scope,
        constexpr_names: set[str],
        local: set[str],
    ) -> None:
        self._module, self._constexpr_names = module, constexpr_names
        self._outside = dict(scope)
        for name in local & scope.keys():
            del self._outside[name]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            return node
        if node.id not in self._outside:
            return node
        return self._global_expression(node.id, self._outside[node.id])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace a path through modules and classes of the program by the value at its end."""
        names = [node.attr]
        root = node.value
        while isinstance(root, ast.Attribute):
            names.append(root.attr)
            root = root.value
        if not isinstance(root, ast.Name) or root.id not in self._outside:
            return self._result(node) or self.generic_visit(node)
        value, name = self._outside[root.id], root.id
        while names and _is_namespace(value):
            name = names.pop()
            value = getattr(value, name)
        if name == root.id:
            result = self._global_expression(name, value)
        else:
            result = self._attribute_expression(value)
        for attribute in reversed(names):
            result = ast.Attribute(result, attribute, ast.Load())
        return result

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return self._result(node) or self.generic_visit(node)

    def _result(self, node: ast.expr) -> ast.expr | None:
        """Return the result of calls that Triton makes while it compiles, else None.

        `torch.iinfo(torch.long).max`, `math.log(2.0)`: a class or a built-in function of the
        program, with fixed arguments.
        """
        with contextlib.suppress(UnwritableValue, LookupError, *_ERRORS):
            return _expression(literal(self._evaluate(node)))
        return None

    def _evaluate(self, node: ast.expr) -> Any:
        # A program may run under Python 3.9, which has no pattern matching.
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._outside[node.id]
        if isinstance(node, ast.Attribute):
            return getattr(self._evaluate(node.value), node.attr)
        if isinstance(node, ast.Call) and not node.keywords:
            called = self._evaluate(node.func)
            own = not str(getattr(called, "__module__", None)).startswith("triton")
            if own and isinstance(called, (type, types.BuiltinFunctionType)):
                return called(*map(self._evaluate, node.args))
        raise UnwritableValue(f"{ast.unparse(node)} has no fixed value")

    def _attribute_expression(self, value: Any) -> ast.expr:
        """Return the value of an attribute of a module or class, which needs no declaration."""
        try:
            return _expression(literal(value))
        except UnwritableValue:
            return self._global_expression(getattr(value, "__name__", ""), value)

    def _global_expression(self, name: str, value: Any) -> ast.expr:
        while type(value).__name__ in ("Autotuner", "Heuristics"):
            value = value.fn
        jit = type(value).__name__ in ("JITFunction", "ConstexprFunction")
        if jit and not value.fn.__module__.startswith("triton."):
            return _expression(self._module.function(value))
        try:
            is_constexpr = name in self._constexpr_names
            text = self._module.constant(name, value, is_constexpr)
        except UnwritableValue:
            text = self._module.path(value)
        return _expression(text)


@functools.cache
def _expression(text: str) -> ast.expr:
    # Nothing changes the result, which stands in several trees.
    return ast.parse(text, mode="eval").body


def _is_namespace(value: Any) -> bool:
    """Return True if the value's attributes are looked up now.

    The release itself looks up attributes of its language.
    """
    if isinstance(value, types.ModuleType):
        return not value.__name__.startswith("triton")
    if isinstance(value, (enum.Enum, types.SimpleNamespace)):
        return True
    return isinstance(value, type) and not value.__module__.startswith("triton")


def _constexpr_names(function: Any) -> set[str]:
    """Return the module's names with a `tl.constexpr` annotation; kernels may read no others."""
    annotations = function.__globals__.get("__annotations__", {})
    names = set()
    for name, annotation in annotations.items():
        if "constexpr" in str(annotation):
            names.add(name)
    return names


def _locals(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _decorator(function: Kernel) -> str:
    if type(function).__name__ == "ConstexprFunction":
        return "@triton.constexpr_function"
    flags = []
    for name in _FLAGS:
        value = getattr(function, name, None)
        if isinstance(value, (tuple, set)):
            value = list(value)
        if value:
            flags.append(f"{name}={value!r}")
    if not flags:
        return "@triton.jit"
    return f"@triton.jit({', '.join(flags)})"


class UnwritableValue(Exception):
    """A value without a text."""


def literal(value: Any) -> str:
    """Return a literal, `tl.constexpr(…)` of one, or a dtype of the language.

    Raises UnwritableValue for any other value.
    """
    if value is None or isinstance(value, bool):
        return repr(value)
    # The text of the base class, because that of an enumeration is not a literal.
    for plain in (int, str):
        if isinstance(value, plain):
            return plain.__repr__(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float.__repr__(value)
        return f'float("{value}")'
    if type(value) is list:
        items = ", ".join(map(literal, value))
        return f"[{items}]"
    if type(value) is tuple:
        items = ", ".join(map(literal, value))
        if len(value) == 1:
            items += ","
        return f"({items})"
    kind = type(value)
    if kind.__name__ == "constexpr":
        return f"tl.constexpr({literal(value.value)})"
    if kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        return "tl." + LANGUAGE_NAMES.get(str(value), str(value))
    raise UnwritableValue(
        f"a value of {kind.__module__}.{kind.__qualname__} cannot be written down"
    )


def path_of(value: Any) -> tuple[str, str | None]:
    """Return the path of a part of triton, and the module to import for it.

    The module is None if `triton.language` has the path.
    """
    if isinstance(value, types.ModuleType):
        path = value.__name__
        if path.partition(".")[0] == "triton":
            return _short(path), _import(path)
    function = getattr(value, "fn", value)
    module = getattr(function, "__module__", None)
    name = getattr(function, "__name__", None)
    if not name or not str(module).startswith("triton"):
        shown_name = name or type(value).__name__
        reason = "is not part of triton and cannot be cut out"
        raise UnwritableValue(f"{shown_name} of {module} {reason}")
    import triton
    import triton.language as tl

    # The shortest public path comes first, because the place of a definition changes between
    # releases.
    for prefix, place in {"tl": tl, "tl.math": tl.math, "triton": triton}.items():
        if getattr(place, name, None) is value:
            return f"{prefix}.{name}", None
    return f"{_short(str(module))}.{name}", _import(str(module))


def _short(module: str) -> str:
    language = "triton.language"
    if module == language or module.startswith(language + "."):
        return "tl" + module[len(language) :]
    return module


def _import(module: str) -> str | None:
    if module.count(".") > 1 and module != "triton.language.math":
        return module
    return None
