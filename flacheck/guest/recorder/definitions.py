"""What the definition of a function says, as a digest. The recorder writes it into the launches
file, and who reads that file compares it with what stands there by then: both sides share this
file, so it imports the standard library alone."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import textwrap
import tokenize
from collections.abc import Iterator
from typing import Any

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAMED = (*_FUNCTION, ast.ClassDef)
_ASSIGNMENT = (ast.Assign, ast.AnnAssign, ast.AugAssign)


def digest(text: str) -> str:
    """Of a whole file, however it ends."""
    return hashlib.sha256(text.rstrip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Definitions:
    """The functions that a module's text defines, each with what it reads of its module: helpers,
    constants, an autotuner's configurations. Comments, docstrings and empty lines say nothing.
    Raises SyntaxError, or ValueError, for text that is not Python."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        tree = ast.parse(text)
        self._functions: dict[str, list[Any]] = {}
        for name, function in _functions(tree, ""):
            self._functions.setdefault(name, []).append(function)
        self._bindings: dict[str, list[Any]] = {}
        for statement in _of_module(tree):
            for name in _bound(statement):
                self._bindings.setdefault(name, []).append(statement)

    def of(self, name: str) -> list[str]:
        """The digest of each function of that name, `outer.inner` for one within another: branches
        may define several."""
        return [self._digest(function) for function in self._functions.get(name, ())]

    def at(self, name: str, line: int) -> str | None:
        """The digest of the function of that name which begins on a line, with its decorators."""
        for function in self._functions.get(name, ()):
            if _first_line(function) == line:
                return self._digest(function)
        return None

    def _digest(self, function: Any) -> str:
        texts: dict[int, str] = {}
        left = [function]
        while left:
            statement = left.pop()
            if statement.lineno not in texts:
                texts[statement.lineno] = self._text(statement)
                for name in _reads(statement):
                    left += self._bindings.get(name, ())
        return digest("\n".join(texts[line] for line in sorted(texts)))

    def _text(self, statement: Any) -> str:
        """A statement with its decorators, as it would stand at the left."""
        first = _first_line(statement)
        lines = self._lines[first - 1 : statement.end_lineno]
        for documented in ast.walk(statement):
            if isinstance(documented, _NAMED) and ast.get_docstring(documented) is not None:
                said: Any = documented.body[0]
                # What shares a line with code stays.
                if said.lineno > documented.lineno:
                    span = range(said.lineno - first, said.end_lineno - first + 1)
                    lines = ["" if n in span else line for n, line in enumerate(lines)]
        return _without_comments(textwrap.dedent("\n".join(lines)))


def _without_comments(text: str) -> str:
    lines = text.split("\n")
    # What cannot be read word by word keeps its comments.
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _functions(node: ast.AST, within: str) -> Iterator[tuple[str, Any]]:
    for child in ast.iter_child_nodes(node):
        inside = within
        if isinstance(child, _NAMED):
            inside = f"{within}{child.name}."
        if isinstance(child, _FUNCTION):
            yield f"{within}{child.name}", child
        if not isinstance(child, ast.expr):
            yield from _functions(child, inside)


def _of_module(node: ast.AST) -> Iterator[Any]:
    """What binds a name of the module, within branches too; imports are no text of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*_NAMED, *_ASSIGNMENT)):
            yield child
        elif not isinstance(child, ast.expr):
            yield from _of_module(child)


def _bound(statement: Any) -> set[str]:
    if isinstance(statement, _NAMED):
        return {statement.name}
    targets = getattr(statement, "targets", None) or [statement.target]
    return {name for target in targets for name in _names(target, ast.Store)}


def _reads(statement: Any) -> set[str]:
    """The names that a statement reads from around it."""
    decorators = getattr(statement, "decorator_list", [])
    read = {name for each in decorators for name in _names(each, ast.Load) - _own(each)}
    if not isinstance(statement, _FUNCTION):
        return read | _names(statement, ast.Load)
    inside = [statement.args, *statement.body]
    own = {name for each in inside for name in _own(each)}
    return read | ({name for each in inside for name in _names(each, ast.Load)} - own)


def _names(node: ast.AST, context: type) -> set[str]:
    found = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    return {each.id for each in found if isinstance(each.ctx, context)}


def _own(node: ast.AST) -> set[str]:
    """The names that are bound below a node: variables and parameters."""
    parameters = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return parameters | _names(node, ast.Store)


def _first_line(statement: Any) -> int:
    decorators = getattr(statement, "decorator_list", ())
    return int(min(each.lineno for each in (statement, *decorators)))
