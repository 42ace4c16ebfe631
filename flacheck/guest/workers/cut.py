"""A kernel cut out of its program: one module that imports only triton and holds all that the
kernel uses.

What the kernel reads from its surroundings is frozen as it is now: constants by value, helper
functions by source, names of the language by their path. Branches over the release of Triton are
thereby decided.
"""

from __future__ import annotations

import ast
import enum
import hashlib
import inspect
import re
import textwrap
import types
from dataclasses import dataclass

from .written import Unwritten, literal, path_of

_HEAD = "import triton\nimport triton.language as tl\n"
_TYPE = re.compile(r"[*a-z0-9]{1,16}")
_FLAGS = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline")


@dataclass(frozen=True)
class Cut:
    """A module's text, or the reason why there is none."""

    text: str | None
    reason: str | None = None

    @property
    def digest(self) -> str | None:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16] if self.text else None


def handed(function, bound: dict) -> dict:
    """The jit functions among a launch's arguments, also those in tuples, with their names in the
    kernel's module: two of the same name, or one of the kernel's, get a number.
    """
    names = {function: function.fn.__name__}
    for value in _functions(bound.values()):
        if value not in names:
            names[value] = _free(value.fn.__name__, names.values())
    return {value: name for value, name in names.items() if value is not function}


def _functions(values):
    for value in values:
        value = value.value if type(value).__name__ == "constexpr" else value
        if type(value).__name__ == "JITFunction":
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _functions(value)


def _free(name: str, taken) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


class Cutter:
    """Cuts each kernel once for each set of functions that a launch hands it."""

    def __init__(self) -> None:
        self._done: dict = {}

    def cut(self, function, functions: dict) -> Cut:
        """`functions` are those that `handed` found."""
        key = (function, *functions)
        if key not in self._done:
            self._done[key] = self._fresh({function: function.fn.__name__, **functions})
        return self._done[key]

    def _fresh(self, roots: dict) -> Cut:
        module = _Module(roots)
        try:
            for root in roots:
                module.function(root)
            text = module.text()
            ast.parse(text)
            return Cut(text)
        except (Unwritten, SyntaxError, OSError) as error:
            return Cut(None, str(error))


class _Module:
    """The text under way: each function and constant once, under a name of its own; `roots` have
    theirs.
    """

    def __init__(self, roots: dict) -> None:
        self._roots = roots
        self._names: dict = {}
        self._taken: set[str] = {"tl", "triton", *roots.values()}
        self._pieces: list[str] = []
        self._imports: set[str] = set()

    def text(self) -> str:
        imports = "".join(f"import {name}\n" for name in sorted(self._imports))
        return _HEAD + imports + "\n\n" + "\n\n\n".join(self._pieces) + "\n"

    def function(self, function) -> str:
        """The name under which a jit function stands in the module."""
        key = id(function)
        if key not in self._names:
            self._names[key] = self._roots.get(function) or self._free(function.fn.__name__)
            self._pieces.append(self._written(function, self._names[key]))
        return self._names[key]

    def constant(self, name: str, value, annotated: bool) -> str:
        text = literal(value)
        key = (name, text, annotated)
        if key not in self._names:
            self._names[key] = self._free(name)
            self._pieces.append(
                f"{self._names[key]}{': tl.constexpr' if annotated else ''} = {text}"
            )
        return self._names[key]

    def path(self, value) -> str:
        path, needed = path_of(value)
        self._imports |= {needed} if needed else set()
        return path

    def _free(self, name: str) -> str:
        free = _free(name, self._taken)
        self._taken.add(free)
        return free

    def _written(self, function, name: str) -> str:
        tree = ast.parse(textwrap.dedent(function.src)).body[0]
        tree.name, tree.decorator_list, tree.returns = name, [], None
        self._sign(tree, function.fn)
        rewriter = _Rewriter(self, _scope(function.fn), _annotated(function.fn), _locals(tree))
        tree.body = [rewriter.visit(statement) for statement in tree.body]
        return f"{_decorator(function)}\n{ast.unparse(ast.fix_missing_locations(tree))}"

    def _sign(self, tree, function) -> None:
        """Annotations and defaults by what they are, not by the names that stood for them."""
        signature = inspect.signature(function)
        parameters = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        for parameter in parameters:
            parameter.annotation = self._annotation(signature.parameters[parameter.arg].annotation)
        tree.args.defaults = [
            self._value(signature.parameters[p.arg].default)
            for p in parameters
            if signature.parameters[p.arg].default is not inspect.Parameter.empty
            and p not in tree.args.kwonlyargs
        ]
        tree.args.kw_defaults = [
            None
            if signature.parameters[p.arg].default is inspect.Parameter.empty
            else self._value(signature.parameters[p.arg].default)
            for p in tree.args.kwonlyargs
        ]

    def _annotation(self, annotation):
        """Triton looks for `constexpr` and for type names; another annotation tells it nothing."""
        if isinstance(annotation, str):
            return _meant(annotation)
        if str(getattr(annotation, "__module__", "")).startswith("triton"):
            return self._value(annotation)
        return None

    def _value(self, value):
        try:
            return _expression(literal(value))
        except Unwritten:
            return _expression(self.path(value))


class _Rewriter(ast.NodeTransformer):
    """Replaces every name that a function reads from outside by what the module calls it."""

    def __init__(self, module: _Module, scope: dict, annotated: set, local: set) -> None:
        self._module, self._scope, self._annotated, self._local = module, scope, annotated, local

    def visit_Name(self, node):
        if (
            not isinstance(node.ctx, ast.Load)
            or node.id in self._local
            or node.id not in self._scope
        ):
            return node
        return self._named(node.id, self._scope[node.id])

    def visit_Attribute(self, node):
        """A path through modules and classes of the program leads to what stands at its end."""
        names, root = [node.attr], node.value
        while isinstance(root, ast.Attribute):
            names.append(root.attr)
            root = root.value
        if not isinstance(root, ast.Name) or root.id in self._local or root.id not in self._scope:
            return self.generic_visit(node)
        value, name = self._scope[root.id], root.id
        while names and _is_namespace(value):
            name = names.pop()
            value = getattr(value, name)
        result = self._named(name, value) if root.id == name else self._reached(value)
        for attribute in reversed(names):
            result = ast.Attribute(result, attribute, ast.Load())
        return result

    def _reached(self, value):
        """What an attribute of a module or class is: Triton asks no declaration of it."""
        try:
            return _expression(literal(value))
        except Unwritten:
            return self._named(getattr(value, "__name__", ""), value)

    def _named(self, name: str, value):
        value = _unwrapped(value)
        if _is_own_function(value):
            return _expression(self._module.function(value))
        try:
            return _expression(self._module.constant(name, value, name in self._annotated))
        except Unwritten:
            return _expression(self._module.path(value))


def _meant(annotation: str):
    """What Triton reads out of an annotation in quotes."""
    for word in ("constexpr", "const"):
        if word in annotation:
            return _expression(f"tl.{word}")
    return ast.Constant(annotation) if _TYPE.fullmatch(annotation) else None


def _expression(text: str):
    return ast.parse(text, mode="eval").body


def _is_namespace(value) -> bool:
    """Whether an attribute of it is looked up now; names of the language are left for the release
    to find.
    """
    if isinstance(value, types.ModuleType):
        return not value.__name__.startswith("triton")
    if isinstance(value, enum.Enum):
        return True
    return isinstance(value, (type, types.SimpleNamespace)) and not value.__module__.startswith(
        "triton"
    )


def _is_own_function(value) -> bool:
    kind = type(value).__name__
    return kind in ("JITFunction", "ConstexprFunction") and not value.fn.__module__.startswith(
        "triton."
    )


def _unwrapped(value):
    while type(value).__name__ in ("Autotuner", "Heuristics"):
        value = value.fn
    return value


def _scope(function) -> dict:
    """Globals, and the variables of the functions around it."""
    inner = inspect.getclosurevars(function).nonlocals if function.__closure__ else {}
    return {**function.__globals__, **inner}


def _annotated(function) -> set:
    """The module's names that are declared `tl.constexpr`: a kernel may read no others."""
    annotations = function.__globals__.get("__annotations__", {})
    return {name for name, kind in annotations.items() if "constexpr" in str(kind)}


def _locals(tree) -> set:
    stored = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return stored | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}


def _decorator(function) -> str:
    if type(function).__name__ == "ConstexprFunction":
        return "@triton.constexpr_function"
    flags = {name: getattr(function, name, None) for name in _FLAGS}
    written = ", ".join(f"{name}={_flag(value)}" for name, value in flags.items() if value)
    return f"@triton.jit({written})" if written else "@triton.jit"


def _flag(value) -> str:
    return repr(list(value)) if isinstance(value, (list, tuple, set)) else repr(value)
