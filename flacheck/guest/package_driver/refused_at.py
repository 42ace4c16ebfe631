"""The code that refused the arguments of a call: the frames that its error went through, with their
variables and their source."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from types import FrameType
from typing import Any

_LIBRARIES = ("torch", "triton", __name__.partition(".")[0])


class RefusedAt:
    """A frame that the error went through, with its function's source."""

    def __init__(self, frame: FrameType, line: int) -> None:
        self.frame, self.line = frame, line
        self.caller: RefusedAt | None = None
        self.names: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
        self.function, self.first = _source(frame.f_code)
        module = str(frame.f_globals.get("__name__", ""))
        self.is_librarys = module.partition(".")[0] in _LIBRARIES

    def statement(self) -> tuple[ast.stmt | None, list[tuple[ast.expr, bool]]]:
        """The innermost statement at the line, with the tests of the branches around it and whether
        each was true, the innermost first."""
        found: ast.stmt | None = None
        tests: list[tuple[ast.expr, bool]] = []
        body: list[ast.stmt] = getattr(self.function, "body", [])
        line = self.line - self.first + 1
        while True:
            here = next((s for s in body if s.lineno <= line <= (s.end_lineno or s.lineno)), None)
            if here is None:
                return found, tests
            found, body = here, []
            for name in ("body", "orelse", "finalbody", "handlers"):
                block = getattr(here, name, [])
                if block and block[0].lineno <= line <= (block[-1].end_lineno or 0):
                    body = block
                    if isinstance(here, ast.If):
                        tests.insert(0, (here.test, name == "body"))

    def is_called_whole(self) -> bool:
        """Whether the function was called with the arguments of the call as they are: by us, or by
        wrappers that hand on all that they get (`function(*args, **kwargs)`)."""
        place = self
        while place.caller is not None:
            place = place.caller
            statement, _ = place.statement()
            calls = [n for n in ast.walk(statement or ast.Pass()) if isinstance(n, ast.Call)]
            if not any(each.arg is None for call in calls for each in call.keywords):
                return False
        return True

    def value(self, node: ast.expr) -> Any:
        code = compile(ast.Expression(node), "<demand>", "eval")
        return eval(code, self.frame.f_globals, self.names)


@functools.cache
def _source(code: Any) -> tuple[ast.stmt | None, int]:
    """A function's syntax tree and its first line."""
    try:
        lines, first = inspect.getsourcelines(code)
        return ast.parse(textwrap.dedent("".join(lines))).body[0], first
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None, 0
