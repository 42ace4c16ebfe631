"""Uses that a package's source makes of a name of Triton, where two releases have other values.

Another value changes nothing for a program that only compares a version with a bound on the same
side of both, calls a class with arguments that both releases bind alike, or checks a type. The
uses are read from the file and the line of each recorded read; no code of the package runs.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from ..pysource.functions import last_name

# A file and the line in it that reads the name.
Place = tuple[str, int]

_TYPE_CHECKS = ("isinstance", "issubclass")
# Functions that turn a version into a value for comparisons, by their last name.
_PARSERS = ("parse", "Version")
_CONVERSIONS = ("int", "tuple", "list", "map", "float", "str")
# Methods of texts and versions without side effects.
_METHODS = ("split", "startswith", "rsplit", "partition", "strip", "removeprefix", "removesuffix")
_FIELDS = ("major", "minor", "micro", "release", "base_version")
# Functions whose arguments are only shown.
_SHOWN_BY = ("print", "warn", "warning", "info", "debug", "error", "warning_once", "info_once")
# The version in a normalised expression.
_VERSION = "__version__"
_FunctionNode = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class UnknownUse(Exception):
    """A use whose result under another release cannot be told from the source."""


@dataclasses.dataclass(frozen=True)
class Signature:
    """A callable's parameters with the defaults that are plain values."""

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    defaults: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, function: Any) -> Signature:
        """Return the signature of a function or class."""
        positional = []
        keyword_only = []
        defaults = []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                keyword_only.append(parameter.name)
            else:
                positional.append(parameter.name)
            if parameter.default is not inspect.Parameter.empty:
                defaults.append((parameter.name, repr(parameter.default)))
        return cls(tuple(positional), tuple(keyword_only), tuple(defaults))

    def bind(self, count: int, names: Iterable[str]) -> list[str]:
        """Return the parameters of a call's arguments, in its order."""
        parameters = [*self.positional[:count], *names]
        known = {*self.positional, *self.keyword_only}
        if count > len(self.positional) or not known.issuperset(parameters):
            raise UnknownUse("an argument that one of the releases lacks")
        return parameters

    def has_same_defaults(self, other: Signature, passed: Iterable[str]) -> bool:
        """Return True if parameters that a call omits have the same defaults in both."""
        own, others = dict(self.defaults), dict(other.defaults)
        omitted = (own.keys() & others.keys()) - set(passed)
        return all(own[name] == others[name] for name in omitted)


def binds_alike(old: Signature, new: Signature, places: Iterable[Place], name: str) -> bool:
    """Return True if each call of a name means the same with both signatures."""
    try:
        for use in _uses(places, name):
            if use.is_type_check or use.is_annotation:
                continue
            count, keywords = use.call_arguments()
            passed = old.bind(count, keywords)
            if passed != new.bind(count, keywords) or not old.has_same_defaults(new, passed):
                return False
    except UnknownUse:
        return False
    return True


def is_only_checked(places: Iterable[Place], name: str) -> bool:
    """Return True if a class is only used in type checks and annotations."""
    try:
        return all(use.is_type_check or use.is_annotation for use in _uses(places, name))
    except UnknownUse:
        return False


def decides_alike(old: str, new: str, places: Iterable[Place], name: str) -> bool:
    """Return True if each comparison of a version has the same result for both versions.

    `name` is that of the attribute, or the distribution whose version was read.
    """
    try:
        for place in places:
            for expression in _file(place[0]).version_expressions(place[1], name):
                if _evaluate(expression, old) != _evaluate(expression, new):
                    return False
    except Exception:
        # An expression of the package may raise anything for one of the versions.
        return False
    return True


def _evaluate(expression: str, version: str) -> object:
    """Return the value of a normalised expression for a version."""
    packaging = importlib.import_module("packaging.version")
    names = {_VERSION: version, "parse": packaging.parse, "__builtins__": {}}
    for conversion in (int, tuple, list, map, float, str):
        names[conversion.__name__] = conversion
    value = eval(expression, names)
    if isinstance(value, map):
        return tuple(value)
    return value


def _uses(places: Iterable[Place], name: str) -> Iterator[_Use]:
    for file, line in places:
        yield from _file(file).uses(line, name)


@functools.cache
def _file(path: str) -> _File:
    try:
        with open(path, encoding="utf-8") as file:
            return _File(ast.parse(file.read()))
    except (OSError, SyntaxError, ValueError) as error:
        raise UnknownUse(f"{path} cannot be read") from error


class _File:
    """A parsed file with the parent of each node."""

    def __init__(self, tree: ast.Module) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        self._tree = tree

    def uses(self, line: int, name: str) -> list[_Use]:
        """Return the uses of the name that a line reads, or imports for the rest of the file."""
        uses = [_Use(self, node) for node in self._reads(line, name)]
        if not uses:
            raise UnknownUse(f"no use of {name} in line {line}")
        return uses

    def _reads(self, line: int, name: str) -> Iterator[ast.expr]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute) and node.attr == name and _covers(node, line):
                yield node
            elif isinstance(node, ast.ImportFrom) and _covers(node, line):
                for alias in node.names:
                    if alias.name == name:
                        yield from self._loads(self._tree, alias.asname or alias.name)

    def _loads(self, scope: ast.AST, name: str) -> Iterator[ast.Name]:
        for node in ast.walk(scope):
            if not isinstance(node, ast.Name) or node.id != name:
                continue
            if isinstance(node.ctx, ast.Load):
                yield node

    def version_expressions(self, line: int, name: str) -> Iterator[str]:
        """Yield the expressions that decide by the version that a line reads."""
        nodes: list[ast.expr] = list(self._reads(line, name))
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and node.args and _covers(node, line):
                first = node.args[0]
                if isinstance(first, ast.Constant) and first.value == name:
                    nodes.append(node)
        if not nodes:
            raise UnknownUse(f"no version in line {line}")
        for node in nodes:
            yield from self._decisions(node, _VERSION)

    def _decisions(self, node: ast.expr, text: str) -> Iterator[str]:
        """Yield the deciding expressions that an expression with the version is part of."""
        while True:
            parent = self.parents[node]
            if isinstance(parent, ast.Compare):
                yield self._comparison(parent, node, text)
                return
            if isinstance(parent, ast.Attribute):
                call = self.parents[parent]
                if parent.attr in _FIELDS:
                    node, text = parent, f"{text}.{parent.attr}"
                    continue
                if parent.attr in _METHODS and isinstance(call, ast.Call) and call.func is parent:
                    arguments = ", ".join(self._constant(argument) for argument in call.args)
                    node, text = call, f"{text}.{parent.attr}({arguments})"
                    if parent.attr == "startswith":
                        yield text
                        return
                    continue
            elif isinstance(parent, ast.Call) and node in parent.args:
                function = last_name(parent.func)
                if function in _SHOWN_BY:
                    return
                others = [text if each is node else self._constant(each) for each in parent.args]
                if function in _PARSERS:
                    function = "parse"
                elif function not in _CONVERSIONS or not isinstance(parent.func, ast.Name):
                    raise UnknownUse(f"the version is passed to {function}")
                node, text = parent, f"{function}({', '.join(others)})"
                continue
            elif isinstance(parent, ast.Subscript) and parent.value is node:
                node, text = parent, f"{text}[{self._constant(parent.slice)}]"
                continue
            elif isinstance(parent, ast.FormattedValue):
                if self._is_shown(parent):
                    return
            elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
                yield from self._variable_decisions(parent, text)
                return
            raise UnknownUse(f"the version is used by {type(parent).__name__}")

    def _variable_decisions(self, assignment: ast.Assign, text: str) -> Iterator[str]:
        """Yield the decisions by a function's variable that holds the version."""
        target = assignment.targets[0]
        scope = self._scope(assignment)
        if not isinstance(target, ast.Name) or isinstance(scope, ast.Module):
            # Other modules may read the variable.
            raise UnknownUse("the version is kept")
        for node in ast.walk(scope):
            is_same = isinstance(node, ast.Name) and node.id == target.id
            if is_same and isinstance(node.ctx, ast.Store) and node is not target:  # type: ignore[attr-defined]
                raise UnknownUse(f"{target.id} is assigned twice")
        for load in self._loads(scope, target.id):
            yield from self._decisions(load, text)

    def _scope(self, node: ast.AST) -> ast.AST:
        while not isinstance(node, (ast.Module, ast.ClassDef, *_FunctionNode)):
            node = self.parents[node]
        return node

    def _comparison(self, comparison: ast.Compare, node: ast.expr, text: str) -> str:
        parts = []
        for operand in (comparison.left, *comparison.comparators):
            parts.append(text if operand is node else self._constant(operand))
        words = [parts[0]]
        for operator, part in zip(comparison.ops, parts[1:]):
            pattern = ast.Compare(ast.Name("a"), [operator], [ast.Name("b")])
            words += [ast.unparse(pattern).split(" ", 1)[1].rsplit(" ", 1)[0], part]
        return " ".join(words)

    def _constant(self, node: ast.expr) -> str:
        """Return a constant as source; a parsed version and a function's variable are constants."""
        if isinstance(node, ast.Call) and last_name(node.func) in _PARSERS and len(node.args) == 1:
            return f"parse({self._constant(node.args[0])})"
        if isinstance(node, ast.Name):
            if node.id in _CONVERSIONS:
                return node.id
            return self._constant(self._single_value(node))
        for child in ast.walk(node):
            if isinstance(child, (ast.Call, ast.Name, ast.Attribute)):
                raise UnknownUse("the version is compared with a variable")
        return ast.unparse(node)

    def _single_value(self, name: ast.Name) -> ast.expr:
        """Return the only value that the scope of a name assigns to it."""
        scope = self._scope(name)
        values = []
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id == name.id:
                        values.append(node.value)
        if len(values) != 1:
            raise UnknownUse(f"{name.id} has no single value")
        return values[0]

    def _is_shown(self, node: ast.AST) -> bool:
        """Return True if a part of a text is only shown, or is the text of an error."""
        while not isinstance(node, ast.stmt):
            if isinstance(node, ast.Call) and last_name(node.func) in _SHOWN_BY:
                return True
            node = self.parents[node]
        return isinstance(node, (ast.Raise, ast.Assert))


@dataclasses.dataclass(frozen=True)
class _Use:
    """A node that reads a name."""

    file: _File
    node: ast.expr

    @property
    def is_type_check(self) -> bool:
        """True if the name is the second argument of `isinstance` or part of it."""
        node: ast.AST = self.node
        parent = self.file.parents[node]
        if isinstance(parent, ast.Tuple):
            node, parent = parent, self.file.parents[parent]
        if not isinstance(parent, ast.Call) or last_name(parent.func) not in _TYPE_CHECKS:
            return False
        return len(parent.args) == 2 and parent.args[1] is node

    @property
    def is_annotation(self) -> bool:
        """True if the name is part of an annotation."""
        node: ast.AST = self.node
        while not isinstance(node, ast.stmt):
            parent = self.file.parents[node]
            if isinstance(parent, (ast.arg, ast.AnnAssign)) and parent.annotation is node:
                return True
            if isinstance(parent, ast.FunctionDef) and parent.returns is node:
                return True
            node = parent
        return False

    def call_arguments(self) -> tuple[int, tuple[str, ...]]:
        """Return the number of positional arguments and the names of the others.

        A decorator is called with the function. Raises UnknownUse for another use.
        """
        parent = self.file.parents[self.node]
        if isinstance(parent, ast.FunctionDef) and self.node in parent.decorator_list:
            return 1, ()
        if not isinstance(parent, ast.Call) or parent.func is not self.node:
            raise UnknownUse("neither a call nor a type check")
        names = []
        for keyword in parent.keywords:
            if keyword.arg is None:
                raise UnknownUse("a call with **")
            names.append(keyword.arg)
        if any(isinstance(argument, ast.Starred) for argument in parent.args):
            raise UnknownUse("a call with *")
        return len(parent.args), tuple(names)


def _covers(node: ast.expr | ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)
