"""Path conditions of a launch that a call did not reach: the branches before it with their truth.

A call is traced while it runs. At each of these branches that would take the other path, the
condition is inverted, and its variables are traced back to constraints on the call's arguments.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from ..pysource.functions import calls_in, last_name, module_tree
from .argument_dataflow import Constraint, ignore_errors
from .conditions import ConditionSolver
from .traceback_frames import TracebackFrame

# Levels of callers of the function that launches.
_MAX_CALLERS = 4
# Constraints of one condition.
_MAX_CONSTRAINTS = 6
_BLOCK_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
# A function's file and first line, as in its code object.
_FunctionLocation = tuple[str, int]


@dataclass(frozen=True)
class PathCondition:
    """A branch condition and the truth that it must have on the path."""

    test: ast.expr
    truth: bool


_Path = tuple[PathCondition, ...]


class PathConditions:
    """The branches in some modules that lie before the launches of one kernel.

    Attributes:
        constraints: the constraints that meet the conditions of the traced call, in their order.
    """

    def __init__(self, kernel: str, modules: frozenset[str]) -> None:
        # Conditions by their line, for each function.
        self._conditions: dict[_FunctionLocation, dict[int, list[PathCondition]]] = {}
        self.constraints: list[Constraint] = []
        functions: list[_ModuleFunction] = []
        for module in sorted(modules):
            functions += module_functions(module)
        kernel_name = kernel.rpartition(":")[2].rpartition(".")[2]
        targets = {kernel_name}
        for _ in range(_MAX_CALLERS):
            targets |= self._add_callers(functions, targets)

    def _add_callers(self, functions: list[_ModuleFunction], targets: set[str]) -> set[str]:
        """Add the conditions in functions that call a target; return the functions' names."""
        names: set[str] = set()
        for function in functions:
            if function.location in self._conditions:
                continue
            paths = list(_paths_to_targets(function.node.body, targets, ()))
            if paths:
                names.add(function.node.name)
                if function.class_name:
                    names.add(function.class_name)
                self._add_paths(function.location, paths)
        return names

    def __bool__(self) -> bool:
        """Return True if a branch lies before a launch."""
        return any(self._conditions.values())

    def _add_paths(self, location: _FunctionLocation, paths: list[_Path]) -> None:
        conditions_by_line = self._conditions.setdefault(location, {})
        for condition in itertools.chain.from_iterable(paths):
            conditions = conditions_by_line.setdefault(condition.test.lineno, [])
            if condition not in conditions:
                conditions.append(condition)

    @contextlib.contextmanager
    def trace(self, arguments: Mapping[str, Any], caller: str) -> Iterator[None]:
        """Collect constraints while a call with these arguments runs in this thread.

        `caller` is the name of the module that makes the call.
        """
        self.constraints = []

        def trace_line(frame: FrameType, event: str, value: object) -> Any:
            if event == "line":
                code = frame.f_code
                conditions = self._conditions[code.co_filename, code.co_firstlineno]
                for condition in conditions.get(frame.f_lineno, ()):
                    suggestions = ignore_errors(_meet(condition, arguments, frame, caller))
                    self.constraints += itertools.islice(suggestions, _MAX_CONSTRAINTS)
            return trace_line

        def trace_call(frame: FrameType, event: str, value: object) -> Any:
            code = frame.f_code
            if (code.co_filename, code.co_firstlineno) in self._conditions:
                return trace_line
            return None

        previous = sys.gettrace()
        sys.settrace(trace_call)
        try:
            yield
        finally:
            sys.settrace(previous)


def _meet(
    condition: PathCondition, arguments: Mapping[str, Any], frame: FrameType, caller: str
) -> Iterator[Constraint]:
    """Yield constraints that invert a branch unless it takes the path already."""
    current = _running_frame(frame, caller)
    if bool(current.evaluate(condition.test)) != condition.truth:
        solver = ConditionSolver(arguments, current)
        yield from solver.require(condition.test, condition.truth)


def _running_frame(frame: FrameType, caller: str) -> TracebackFrame:
    """Return a running frame with its callers in the package, up to the module `caller`."""
    innermost = TracebackFrame(frame, frame.f_lineno)
    inner = innermost
    outer = frame.f_back
    while outer is not None and outer.f_globals.get("__name__") != caller:
        outer_frame = TracebackFrame(outer, outer.f_lineno)
        outer = outer.f_back
        if not outer_frame.is_library:
            inner.caller = outer_frame
            inner = outer_frame
    return innermost


@dataclass(frozen=True)
class _ModuleFunction:
    """A function or method of a module; functions have an empty class name."""

    file: str
    class_name: str
    node: ast.FunctionDef

    @property
    def location(self) -> _FunctionLocation:
        """The file and the line of the first decorator or of the definition."""
        lines = [self.node.lineno]
        for decorator in self.node.decorator_list:
            lines.append(decorator.lineno)
        return self.file, min(lines)


@functools.cache
def module_functions(module: str) -> tuple[_ModuleFunction, ...]:
    """Return a module's functions and methods; none without source."""
    tree = module_tree(module)
    if tree is None:
        return ()
    file = inspect.getsourcefile(sys.modules[module]) or ""
    functions = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            functions.append(_ModuleFunction(file, "", statement))
        elif isinstance(statement, ast.ClassDef):
            for method in statement.body:
                if isinstance(method, ast.FunctionDef):
                    functions.append(_ModuleFunction(file, statement.name, method))
    return tuple(functions)


def _paths_to_targets(block: list[ast.stmt], targets: set[str], path: _Path) -> Iterator[_Path]:
    """Yield the conditions before each call of a target."""
    for statement in block:
        if isinstance(statement, ast.If):
            when_true = (*path, PathCondition(statement.test, True))
            when_false = (*path, PathCondition(statement.test, False))
            yield from _paths_to_targets(statement.body, targets, when_true)
            yield from _paths_to_targets(statement.orelse, targets, when_false)
            if _leaves_block(statement.body):
                path = when_false
            elif _leaves_block(statement.orelse):
                path = when_true
            continue
        inner_blocks = _inner_blocks(statement)
        is_definition = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        if any(inner_blocks) and not is_definition:
            for inner_block in inner_blocks:
                yield from _paths_to_targets(inner_block, targets, path)
        elif _calls_target(statement, targets):
            yield path


def _inner_blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """Return the blocks of a loop, `with` or `try` statement."""
    blocks = []
    for name in ("body", "orelse", "finalbody"):
        blocks.append(getattr(statement, name, []))
    for handler in getattr(statement, "handlers", ()):
        blocks.append(handler.body)
    return blocks


def _leaves_block(block: list[ast.stmt]) -> bool:
    """Return True if a block ends with `return`, `raise`, `continue` or `break`."""
    return bool(block) and isinstance(block[-1], _BLOCK_ENDS)


def _calls_target(statement: ast.stmt, targets: set[str]) -> bool:
    """Return True if a statement calls or launches a target: `f(x)`, `f[grid](x)`, `F.apply(x)`."""
    return not targets.isdisjoint(_callees(statement))


@functools.cache
def _callees(statement: ast.stmt) -> frozenset[str]:
    """Return the names of the functions that a statement calls or launches."""
    names = set()
    for call in calls_in(statement):
        function = call.func
        if isinstance(function, ast.Subscript):
            function = function.value
        if isinstance(function, ast.Attribute) and function.attr == "apply":
            function = function.value
        names.add(last_name(function))
    return frozenset(names)
