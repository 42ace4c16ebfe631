"""Frames of a package's code with their variables and the source around their current line."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from types import FrameType
from typing import Any

from ..pysource.functions import calls_in, definition_of

_LIBRARIES = ("torch", "triton", __name__.partition(".")[0])


class TracebackFrame:
    """A frame that an error passed through or that is still running, with its function's source.

    Attributes:
        line: the current line in the file.
        caller: the frame that called this one, without frames of libraries.
        names: the global and local variables.
        function: the function's syntax tree, None without source.
        line_offset: the number of lines in the file before line 1 of the syntax tree.
        is_library: True for code of torch, Triton or flacheck.
    """

    def __init__(self, frame: FrameType, line: int) -> None:
        self.frame = frame
        self.line = line
        self.caller: TracebackFrame | None = None
        self.names: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
        self.function, self.line_offset = _parse_function(frame.f_code)
        module = str(frame.f_globals.get("__name__", ""))
        self.is_library = module.partition(".")[0] in _LIBRARIES

    def statement(self) -> tuple[ast.stmt | None, list[tuple[ast.expr, bool]]]:
        """Return the innermost statement at the line and the conditions of the branches around it.

        Each condition comes with its truth; the innermost branch is first.
        """
        innermost: ast.stmt | None = None
        conditions: list[tuple[ast.expr, bool]] = []
        body: list[ast.stmt] = getattr(self.function, "body", [])
        line = self.line - self.line_offset
        while True:
            statement = _statement_at(body, line)
            if statement is None:
                return innermost, conditions
            innermost = statement
            body = []
            for name in ("body", "orelse", "finalbody", "handlers"):
                block = getattr(statement, name, [])
                if block and block[0].lineno <= line <= (block[-1].end_lineno or 0):
                    body = block
                    if isinstance(statement, ast.If):
                        conditions.insert(0, (statement.test, name == "body"))

    def has_original_arguments(self) -> bool:
        """Return True if the function was called with the arguments of the outermost call.

        The driver called it, or wrappers that pass on all arguments (`function(*args, **kwargs)`).
        """
        frame = self
        while frame.caller is not None:
            frame = frame.caller
            statement, _ = frame.statement()
            if statement is None or not _has_double_star(statement):
                return False
        return True

    def passes_all_arguments(self) -> bool:
        """Return True for a wrapper's frame: it takes any arguments and passes all on, in order."""
        code = self.frame.f_code
        takes_any = code.co_flags & inspect.CO_VARARGS and not code.co_argcount
        statement, _ = self.statement()
        if not takes_any or statement is None:
            return False
        calls = calls_in(statement)
        return any(call.args and isinstance(call.args[0], ast.Starred) for call in calls)

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression in this frame."""
        code = compile(ast.Expression(node), "<constraint>", "eval")
        return eval(code, self.frame.f_globals, self.names)


def _statement_at(body: list[ast.stmt], line: int) -> ast.stmt | None:
    for statement in body:
        last_line = statement.end_lineno or statement.lineno
        if statement.lineno <= line <= last_line:
            return statement
    return None


def _has_double_star(statement: ast.stmt) -> bool:
    """Return True if a call in the statement unpacks a dictionary of keyword arguments."""
    for call in calls_in(statement):
        if any(keyword.arg is None for keyword in call.keywords):
            return True
    return False


@functools.cache
def _parse_function(code: Any) -> tuple[ast.stmt | None, int]:
    """Return a function's syntax tree and the number of lines in the file before its line 1."""
    definition = definition_of(code)
    if definition is not None:
        return definition, 0
    try:
        lines, first_line = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        return tree.body[0], first_line - 1
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None, 0
