"""Digests of function definitions.

The recorder writes them into the launches file. A reader of that file compares them with the
current source. Both sides share this module, so it imports the standard library alone.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import textwrap
import tokenize
from collections.abc import Iterator
from typing import Any

from ..pysource.functions import names_of

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAMED_NODES = (*_FUNCTION, ast.ClassDef)
_ASSIGNMENT = (ast.Assign, ast.AnnAssign, ast.AugAssign)


def digest(text: str) -> str:
    """Return the digest of a file's text, without trailing white space."""
    data = text.rstrip().encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:16]


class Definitions:
    """The functions that a module's text defines, with the parts of the module they read.

    Those are helpers, constants, and an autotuner's configurations. Comments, docstrings and empty
    lines do not count. Raises SyntaxError, or ValueError, for text that is not Python.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        tree = ast.parse(text)
        self._functions: dict[str, list[Any]] = {}
        for name, function in _functions(tree, ""):
            self._functions.setdefault(name, []).append(function)
        self._bindings: dict[str, list[Any]] = {}
        for statement in _module_bindings(tree):
            for name in _bound_names(statement):
                self._bindings.setdefault(name, []).append(statement)

    def of(self, name: str) -> list[str]:
        """Return the digests of all functions of that name, `outer.inner` for a nested one.

        Branches may define several functions of one name.
        """
        functions = self._functions.get(name, ())
        return [self._digest(function) for function in functions]

    def at(self, name: str, line: int) -> str | None:
        """Return the digest of a function by its name and first line, decorators included."""
        for function in self._functions.get(name, ()):
            if _first_line(function) == line:
                return self._digest(function)
        return None

    def _digest(self, function: Any) -> str:
        texts: dict[int, str] = {}
        stack = [function]
        while stack:
            statement = stack.pop()
            if statement.lineno in texts:
                continue
            texts[statement.lineno] = self._text(statement)
            for name in _reads(statement):
                stack += self._bindings.get(name, ())
        in_order = [texts[line] for line in sorted(texts)]
        return digest("\n".join(in_order))

    def _text(self, statement: Any) -> str:
        """Return a statement with its decorators, unindented, without docstrings and comments."""
        first = _first_line(statement)
        lines = self._lines[first - 1 : statement.end_lineno]
        for node in ast.walk(statement):
            if isinstance(node, _NAMED_NODES) and ast.get_docstring(node) is not None:
                docstring: Any = node.body[0]
                # A docstring that shares a line with code stays.
                if docstring.lineno > node.lineno:
                    start = docstring.lineno - first
                    end = docstring.end_lineno - first
                    for index in range(start, end + 1):
                        lines[index] = ""
        return _without_comments(textwrap.dedent("\n".join(lines)))


def _without_comments(text: str) -> str:
    lines = text.split("\n")
    # Text that cannot be tokenized keeps its comments.
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        stream = io.StringIO(text + "\n")
        for token in tokenize.generate_tokens(stream.readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    code_lines = []
    for line in lines:
        if line.strip():
            code_lines.append(line.rstrip())
    return "\n".join(code_lines)


def _functions(node: ast.AST, within: str) -> Iterator[tuple[str, Any]]:
    for child in ast.iter_child_nodes(node):
        inside = within
        if isinstance(child, _NAMED_NODES):
            inside = f"{within}{child.name}."
        if isinstance(child, _FUNCTION):
            yield f"{within}{child.name}", child
        if not isinstance(child, ast.expr):
            yield from _functions(child, inside)


def _module_bindings(node: ast.AST) -> Iterator[Any]:
    """Yield the statements that bind a name of the module, in branches too, but no imports."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*_NAMED_NODES, *_ASSIGNMENT)):
            yield child
        elif not isinstance(child, ast.expr):
            yield from _module_bindings(child)


def _bound_names(statement: Any) -> set[str]:
    if isinstance(statement, _NAMED_NODES):
        return {statement.name}
    targets = getattr(statement, "targets", None) or [statement.target]
    names = set()
    for target in targets:
        names |= names_of(target, ast.Store)
    return names


def _reads(statement: Any) -> set[str]:
    """Return the names that a statement reads from its surroundings."""
    outside: set[str] = set()
    for decorator in getattr(statement, "decorator_list", []):
        outside |= names_of(decorator, ast.Load) - _own(decorator)
    if not isinstance(statement, _FUNCTION):
        return outside | names_of(statement, ast.Load)
    inside: set[str] = set()
    own: set[str] = set()
    for node in (statement.args, *statement.body):
        inside |= names_of(node, ast.Load)
        own |= _own(node)
    return outside | (inside - own)


def _own(node: ast.AST) -> set[str]:
    """Return the names that are bound below a node: variables and parameters."""
    names = names_of(node, ast.Store)
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            names.add(each.arg)
    return names


def _first_line(statement: Any) -> int:
    line: int = statement.lineno
    for decorator in getattr(statement, "decorator_list", ()):
        line = min(line, decorator.lineno)
    return line
