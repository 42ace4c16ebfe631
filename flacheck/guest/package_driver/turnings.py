"""The way to a launch that a call did not make: the branches before it, each with the truth that
its condition must have. A call is watched as it comes by them, and where it would turn the other
way, what the condition wants is followed back to the call's own arguments, as it is for one that
refuses them."""

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

from .demands import Conditions
from .following import Demand, safely
from .refused_at import RefusedAt

# The module that makes the calls.
_CALLER = f"{__package__}.calls"
# Callers of what launches are looked at so far.
_DEEPEST = 4
# What one condition may want of the arguments.
_MOST = 6
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
# A function by its file and first line, as its code knows them.
_Place = tuple[str, int]


@dataclass(frozen=True)
class Turn:
    """A branch's condition, and what it must come to."""

    test: ast.expr
    truth: bool


class Turnings:
    """The branches in some modules before the launches of one kernel."""

    def __init__(self, kernel: str, modules: frozenset[str]) -> None:
        self._turns: dict[_Place, dict[int, list[Turn]]] = {}
        # What the conditions that a watched call came by want, in the order in which it did.
        self.wanted: list[Demand] = []
        targets = {kernel.rpartition(":")[2].rpartition(".")[2]}
        functions = [each for name in sorted(modules) for each in _functions(name)]
        looked: set[_Place] = set()
        for _ in range(_DEEPEST):
            reached: set[str] = set()
            for function in functions:
                place = function.file, _first_line(function.node)
                if place in looked:
                    continue
                ways = list(_ways(function.node.body, targets, ()))
                if ways:
                    looked.add(place)
                    reached |= {function.node.name, function.owner}
                    self._note(place, ways)
            targets |= reached - {""}

    def __bool__(self) -> bool:
        return any(self._turns.values())

    def _note(self, place: _Place, ways: list[tuple[Turn, ...]]) -> None:
        lines = self._turns.setdefault(place, {})
        for turn in itertools.chain.from_iterable(ways):
            known = lines.setdefault(turn.test.lineno, [])
            if turn not in known:
                known.append(turn)

    @contextlib.contextmanager
    def watching(self, given: Mapping[str, Any]) -> Iterator[None]:
        """While this lasts, what the conditions want of the arguments that were `given` is noted;
        this thread's calls only."""
        self.wanted = []

        def line(frame: FrameType, event: str, value: object) -> Any:
            if event == "line":
                code = frame.f_code
                turns = self._turns[code.co_filename, code.co_firstlineno]
                for turn in turns.get(frame.f_lineno, ()):
                    found = safely(_unmet(turn, given, frame))
                    self.wanted += itertools.islice(found, _MOST)
            return line

        def call(frame: FrameType, event: str, value: object) -> Any:
            code = frame.f_code
            if (code.co_filename, code.co_firstlineno) in self._turns:
                return line
            return None

        before = sys.gettrace()
        sys.settrace(call)
        try:
            yield
        finally:
            sys.settrace(before)


def _unmet(turn: Turn, given: Mapping[str, Any], frame: FrameType) -> Iterator[Demand]:
    place = _place(frame)
    if bool(place.value(turn.test)) != turn.truth:
        yield from Conditions(given, place).want(turn.test, turn.truth)


def _place(frame: FrameType) -> RefusedAt:
    """A frame that is still running, with those that called it, up to our own call."""
    innermost = place = RefusedAt(frame, frame.f_lineno)
    above = frame.f_back
    while above is not None and above.f_globals.get("__name__") != _CALLER:
        outer = RefusedAt(above, above.f_lineno)
        above = above.f_back
        if not outer.is_librarys:
            place.caller = outer
            place = outer
    return innermost


@dataclass(frozen=True)
class _NamedFunction:
    """A function of a module, and the class that it is a method of."""

    file: str
    owner: str
    node: ast.FunctionDef


@functools.cache
def _functions(module: str) -> tuple[_NamedFunction, ...]:
    try:
        file = inspect.getsourcefile(sys.modules[module])
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, SyntaxError, KeyError):
        return ()
    found = []
    for statement in tree.body:
        inner = [statement]
        if isinstance(statement, ast.ClassDef):
            inner = statement.body
        for each in inner:
            if isinstance(each, ast.FunctionDef):
                found.append(_NamedFunction(file or "", getattr(statement, "name", ""), each))
    return tuple(found)


def _first_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _ways(
    block: list[ast.stmt], targets: set[str], turns: tuple[Turn, ...]
) -> Iterator[tuple[Turn, ...]]:
    """The turns before each call of a target."""
    for statement in block:
        if isinstance(statement, ast.If):
            yield from _ways(statement.body, targets, (*turns, Turn(statement.test, True)))
            yield from _ways(statement.orelse, targets, (*turns, Turn(statement.test, False)))
            if _leaves(statement.body):
                turns = (*turns, Turn(statement.test, False))
            elif _leaves(statement.orelse):
                turns = (*turns, Turn(statement.test, True))
            continue
        inner = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        inner += [handler.body for handler in getattr(statement, "handlers", ())]
        if any(inner) and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            for each in inner:
                yield from _ways(each, targets, turns)
        elif _calls(statement, targets):
            yield turns


def _leaves(block: list[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVING)


def _calls(statement: ast.stmt, targets: set[str]) -> bool:
    """Whether a statement calls or launches one of these: `f(x)`, `f[grid](x)`, `F.apply(x)`."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call):
            continue
        called: ast.AST = node.func
        if isinstance(called, ast.Subscript):
            called = called.value
        if isinstance(called, ast.Attribute) and called.attr == "apply":
            called = called.value
        if getattr(called, "id", getattr(called, "attr", "")) in targets:
            return True
    return False
