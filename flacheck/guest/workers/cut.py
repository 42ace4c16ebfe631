"""A kernel cut out of its program: one module that imports only triton and holds all that the
kernel uses. What the kernel reads from its surroundings is frozen as it is now: constants by value,
helper functions by source, names of the language by their path. Branches over the release of Triton
are thereby decided."""

from __future__ import annotations

import ast
import enum
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

_HEAD = "import triton\nimport triton.language as tl\n"
# A name of a type as Triton's signatures have them: `*fp32`, `i64`.
_TYPE = re.compile(r"[*a-z0-9]{1,16}")
# Python's own types, by which Triton decides what a number without a dtype is.
_PLAIN_TYPES = (bool, int, float)
# What @triton.jit was told that changes how a launch is specialised or compiled.
_FLAGS = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline")


@dataclass(frozen=True)
class CutResult:
    """A module's text, or the reason why there is none; `functions` are those that stand in it, or
    came as far as that."""

    text: str | None
    reason: str | None = None
    functions: tuple[Kernel, ...] = ()

    @property
    def digest(self) -> str | None:
        """The name by which launches refer to the text."""
        if self.text is None:
            return None
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def passed_functions(function: Kernel, bound: dict[str, Any]) -> dict[Kernel, str]:
    """The jit functions among a launch's arguments, also those in tuples, with their names in the
    kernel's module: two of the same name, or one of the kernel's, get a number."""
    names = {function: function.fn.__name__}
    for value in _functions(bound.values()):
        if value not in names:
            names[value] = _free(value.fn.__name__, names.values())
    return {value: name for value, name in names.items() if value is not function}


def _functions(values: Iterable[Any]) -> Iterator[Kernel]:
    for value in values:
        # By their names: each release has classes of its own, and Triton may not be there yet.
        if type(value).__name__ == "constexpr":
            value = value.value
        if type(value).__name__ == "JITFunction":
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _functions(value)


def _free(name: str, taken: Iterable[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


class Cutter:
    """Cuts each kernel once for each set of functions that a launch hands it."""

    def __init__(self) -> None:
        self._done: dict[tuple[Kernel, ...], CutResult] = {}

    def cut(self, function: Kernel, functions: dict[Kernel, str]) -> CutResult:
        """`functions` are those that `passed_functions` found."""
        key = (function, *functions)
        if key not in self._done:
            module = _CutModule({function: function.fn.__name__, **functions})
            try:
                for root in key:
                    module.function(root)
                text = module.text()
                ast.parse(text)
                self._done[key] = CutResult(text, None, tuple(module.functions))
            except (UnwritableValue, SyntaxError, OSError) as error:
                self._done[key] = CutResult(None, str(error), tuple(module.functions))
        return self._done[key]


class _CutModule:
    """The text under way: each function and constant once, under a name of its own."""

    def __init__(self, roots: dict[Kernel, str]) -> None:
        self._roots = roots
        # By a function's id, or a constant's name, text and whether it is declared `tl.constexpr`.
        self._names: dict[object, str] = {}
        self._taken: set[str] = {"tl", "triton", *roots.values()}
        self._pieces: list[str] = []
        # Modules of triton beside its language, with the names that they are imported as.
        self._imports: dict[str, str] = {}
        self.functions: list[Kernel] = []

    def text(self) -> str:
        aliases = sorted(self._imports.items())
        imports = "".join(f"import {module} as {name}\n" for module, name in aliases)
        return _HEAD + imports + "\n\n" + "\n\n\n".join(self._pieces) + "\n"

    def function(self, function: Kernel) -> str:
        """The name under which a jit function stands in the module."""
        key = id(function)
        if key not in self._names:
            self._names[key] = self._roots.get(function) or self._free(function.fn.__name__)
            self.functions.append(function)
            self._pieces.append(self._written(function, self._names[key]))
        return self._names[key]

    def constant(self, name: str, value: Any, annotated: bool) -> str:
        """The name under which a constant stands in the module. Raises UnwritableValue."""
        text = literal(value)
        key = (name, text, annotated)
        if key not in self._names:
            declared = self._names[key] = self._free(name)
            if annotated:
                declared += ": tl.constexpr"
            self._pieces.append(f"{declared} = {text}")
        return self._names[key]

    def path(self, value: Any) -> str:
        """The path to a part of triton. Raises UnwritableValue."""
        path, needed = path_of(value)
        if needed is None:
            return path
        # Under a name of its own: the compiler puts the GPU's functions in the place of a module
        # like libdevice where the name stands for it, and in 3.3 not at the end of a path.
        if needed not in self._imports:
            self._imports[needed] = self._free(needed.rpartition(".")[2])
        return self._imports[needed] + path[len(_short(needed)) :]

    def _free(self, name: str) -> str:
        free = _free(name, self._taken)
        self._taken.add(free)
        return free

    def _written(self, function: Kernel, name: str) -> str:
        tree: Any = ast.parse(textwrap.dedent(function.src)).body[0]
        tree.name, tree.decorator_list, tree.returns = name, [], None
        self._sign(tree.args, function.fn)
        # Globals, and the variables of the functions around it.
        scope = dict(function.fn.__globals__)
        if function.fn.__closure__:
            scope.update(inspect.getclosurevars(function.fn).nonlocals)
        rewriter = _Rewriter(self, scope, _annotated(function.fn), _locals(tree))
        tree.body = [rewriter.visit(statement) for statement in tree.body]
        return f"{_decorator(function)}\n{ast.unparse(ast.fix_missing_locations(tree))}"

    def _sign(self, arguments: ast.arguments, function: Any) -> None:
        """Annotations and defaults by what they are, not by the names that stood for them."""
        signature = inspect.signature(function).parameters
        positional = [*arguments.posonlyargs, *arguments.args]
        for parameter in [*positional, *arguments.kwonlyargs]:
            parameter.annotation = self._annotation(signature[parameter.arg].annotation)
        defaults = [self._default(signature[parameter.arg]) for parameter in positional]
        arguments.defaults = [default for default in defaults if default is not None]
        arguments.kw_defaults = [self._default(signature[p.arg]) for p in arguments.kwonlyargs]

    def _default(self, parameter: inspect.Parameter) -> ast.expr | None:
        if parameter.default is inspect.Parameter.empty:
            return None
        return self._value(parameter.default)

    def _annotation(self, annotation: Any) -> ast.expr | None:
        """Triton looks for `constexpr` and for type names; another annotation tells it nothing."""
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
    """Replaces every name that a function reads from outside by what the module calls it."""

    def __init__(
        self, module: _CutModule, scope: dict[str, Any], annotated: set[str], local: set[str]
    ) -> None:
        self._module, self._annotated = module, annotated
        self._outside = {name: value for name, value in scope.items() if name not in local}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._outside:
            return self._named(node.id, self._outside[node.id])
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """A path through modules and classes of the program leads to what stands at its end."""
        names = [node.attr]
        root = node.value
        while isinstance(root, ast.Attribute):
            names.append(root.attr)
            root = root.value
        if not isinstance(root, ast.Name) or root.id not in self._outside:
            return self.generic_visit(node)
        value, name = self._outside[root.id], root.id
        while names and _is_namespace(value):
            name = names.pop()
            value = getattr(value, name)
        result = self._named(name, value) if name == root.id else self._reached(value)
        for attribute in reversed(names):
            result = ast.Attribute(result, attribute, ast.Load())
        return result

    def _reached(self, value: Any) -> ast.expr:
        """What an attribute of a module or class is: Triton asks no declaration of it."""
        try:
            return _expression(literal(value))
        except UnwritableValue:
            return self._named(getattr(value, "__name__", ""), value)

    def _named(self, name: str, value: Any) -> ast.expr:
        while type(value).__name__ in ("Autotuner", "Heuristics"):
            value = value.fn
        jit = type(value).__name__ in ("JITFunction", "ConstexprFunction")
        if jit and not value.fn.__module__.startswith("triton."):
            return _expression(self._module.function(value))
        try:
            return _expression(self._module.constant(name, value, name in self._annotated))
        except UnwritableValue:
            return _expression(self._module.path(value))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _is_namespace(value: Any) -> bool:
    """Whether its attributes are looked up now; those of the language the release finds."""
    if isinstance(value, types.ModuleType):
        return not value.__name__.startswith("triton")
    if isinstance(value, (enum.Enum, types.SimpleNamespace)):
        return True
    return isinstance(value, type) and not value.__module__.startswith("triton")


def _annotated(function: Any) -> set[str]:
    """The module's names that are declared `tl.constexpr`: a kernel may read no others."""
    annotations = function.__globals__.get("__annotations__", {})
    return {name for name, kind in annotations.items() if "constexpr" in str(kind)}


def _locals(tree: ast.AST) -> set[str]:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


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
    """A value that no text stands for."""


def literal(value: Any) -> str:
    """A literal, `tl.constexpr(…)` of one, or a dtype of the language. Raises UnwritableValue."""
    if value is None or isinstance(value, bool):
        return repr(value)
    # The class's own text: that of an enumeration is no literal.
    for plain in (int, str):
        if isinstance(value, plain):
            return plain.__repr__(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float.__repr__(value)
        return f'float("{value}")'
    if type(value) is list:
        return "[" + ", ".join(map(literal, value)) + "]"
    if type(value) is tuple:
        if len(value) == 1:
            return f"({literal(value[0])},)"
        return "(" + ", ".join(map(literal, value)) + ")"
    kind = type(value)
    if kind.__name__ == "constexpr":
        return f"tl.constexpr({literal(value.value)})"
    if kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        return "tl." + LANGUAGE_NAMES.get(str(value), str(value))
    raise UnwritableValue(
        f"a value of {kind.__module__}.{kind.__qualname__} cannot be written down"
    )


def path_of(value: Any) -> tuple[str, str | None]:
    """Where triton has it, and the module to import first where `triton.language` lacks it."""
    if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == "triton":
        return _short(value.__name__), _import(value.__name__)
    function = getattr(value, "fn", value)
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
    if not name or not str(module).startswith("triton"):
        called = name or type(value).__name__
        raise UnwritableValue(f"{called} of {module} is no part of triton and cannot be cut out")
    import triton
    import triton.language as tl

    # The shortest public path comes first: where a name is defined moves from release to release.
    for place, prefix in ((tl, "tl"), (tl.math, "tl.math"), (triton, "triton")):
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
