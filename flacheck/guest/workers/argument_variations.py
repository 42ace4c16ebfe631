"""Variations of a launch that the front end refused, to separate its arguments from its kernel.

A failing line belongs to the kernel if no variation of the launch's arguments gets past it: neither
another dtype nor another rank, constant, kind of argument or None. If a variation does, the line
depends on the varied argument. An argument by which the kernel skips the line does not decide if
the line compiles.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..engine import releases
from ..engine.messages import ArgumentSpec, Json, Kernel
from ..pysource.functions import called_name

# Variations of one launch: a kernel with more of them on its line stays undecided.
_MAX_VARIATIONS = 480
# Seconds by the clock for all variations of one launch.
_MAX_SECONDS = 60.0
# Child processes: a variation may end one in the compiler's library.
_MAX_CHILDREN = 6
_MAX_TEXTS = 4
# The name of the variations of all tensors.
_ALL_DTYPES = "the dtypes of all tensors"
# The dtypes of all tensors are varied first, floats before integers.
_FLOATS = ("fp32", "fp16")
# Usual sizes of a tile: a dot needs 16 at least, which twice a small size does not reach.
_TILE_SIZES = (16, 64)
# Functions whose arguments are addresses.
_MEMORY_FUNCTIONS = (
    *("load", "store", "make_block_ptr", "advance", "make_tensor_descriptor", "atomic_add"),
    *("atomic_max", "atomic_min", "atomic_cas", "atomic_xchg"),
)
# A line that rejects arguments on purpose.
_REJECTIONS = (ast.Raise, ast.Assert)
_ASSERTION_ERROR = "CompileTimeAssertionFailure"
# The outcomes of a variation: it fails at the same place, there with another error, it gets past
# that place, it ends the compile without reaching that place, or it fails at another place.
_SAME, _CHANGED, _PAST, _SKIPPED, _ELSEWHERE = "same", "changed", "past", "skipped", "elsewhere"
# Outcomes that show how a line behaves.
_INFORMATIVE = (_SAME, _CHANGED, _PAST, _SKIPPED)
# Names of dtypes and numbers, which differ between errors for one reason.
_DTYPE_OR_NUMBER = re.compile(r"\b(?:b?f|fp|float|bfloat|u?i|u?int)?\d+\b")

# A node of a kernel: its line, its column and its kind.
_Position = tuple[int, int, str]
_Arguments = Mapping[str, ArgumentSpec]
# Compiles the kernel with other arguments up to the end of the front end.
_Compile = Callable[[Any], object]


@dataclass
class FrontEndPath:
    """The nodes of kernels that the front end visits, outermost first.

    Attributes:
        failed: the nodes on the way to the place of the first error, outermost first.
        goal: the positions of the place to watch for.
        is_passed: True if the front end got past that place without an error.
    """

    failed: list[ast.AST] = field(default_factory=list)
    goal: list[_Position] | None = None
    is_passed: bool = False
    _open_nodes: list[ast.AST] = field(default_factory=list)

    def begin(self, goal: list[_Position] | None = None) -> None:
        """Forget the last compile; watch for the goal in the next one."""
        self.failed = []
        self.goal = goal
        self.is_passed = False
        self._open_nodes.clear()

    def visit(self, node: ast.AST, read: Callable[[], Any]) -> Any:
        """Visit a node by the front end's own function."""
        self._open_nodes.append(node)
        try:
            result = read()
        except Exception:
            if not self.failed:
                self.failed = list(self._open_nodes)
            raise
        finally:
            if self._is_at_goal() and not self.failed:
                self.is_passed = True
            self._open_nodes.pop()
        return result

    def _is_at_goal(self) -> bool:
        goal = self.goal
        if goal is None or len(self._open_nodes) != len(goal):
            return False
        if _position(self._open_nodes[-1]) != goal[-1]:
            return False
        return _positions(self._open_nodes) == goal


def watch_path() -> FrontEndPath:
    """Follow the front end through the nodes of kernels."""
    path = FrontEndPath()
    releases.watch_visits(path.visit)
    return path


class ArgumentVariations:
    """Compiles variations of refused launches and remembers what each failing place depends on."""

    def __init__(self, path: FrontEndPath) -> None:
        self._path = path
        self._known: dict[tuple[Kernel, str], Json] = {}

    def examine(
        self,
        error: Exception,
        function: Kernel,
        arguments: _Arguments,
        compile_launch: _Compile,
    ) -> Json:
        """Return the facts about a refused launch, empty if the line cannot be judged.

        Args:
            error: The front end's error.
            function: The kernel.
            arguments: The launch's arguments.
            compile_launch: Compiles the kernel with other arguments up to the end of the front end.
        """
        if type(error).__name__ == _ASSERTION_ERROR:
            return {}
        nodes = self._path.failed
        if not nodes:
            if is_dependency_error(error):
                # The search for a kernel's dependencies reads its source, not its arguments.
                return {"variations": {"tried": 0, "alike": True, "depends_on": []}}
            # New releases verify their output at the end of the front end, behind all nodes.
            return self.examine_mismatch(arguments, compile_launch)
        if isinstance(nodes[-1], _REJECTIONS):
            return {}
        place = _positions(nodes)
        reason = _reason(error)
        key = (function, f"{place} {type(error).__name__} {reason}")
        if key not in self._known:
            variations = list(_variations(function, arguments, nodes))
            self._known[key] = self._judge(variations, arguments, place, reason, compile_launch)
        return self._known[key]

    def examine_mismatch(self, arguments: _Arguments, compile_launch: _Compile) -> Json:
        """Return the facts about operands of different types, which the verifier refused.

        Old releases do not convert a tensor's elements to the dtype of a computed value. If the
        launch is valid with one dtype for all floats, the dtypes of its arguments decide.

        Args:
            arguments: The launch's arguments.
            compile_launch: Compiles the kernel with other arguments up to the failing stage's end.
        """

        def run(changes: _Arguments) -> str:
            try:
                compile_launch({**arguments, **changes})
            except releases.StageReached:
                return _PAST
            except Exception:
                return _SAME
            return _SKIPPED

        variations: list[tuple[str, _Arguments]] = []
        for dtype in _FLOATS:
            changes: dict[str, ArgumentSpec] = {}
            for name, spec in arguments.items():
                if isinstance(spec, dict) and str(_dtype_of(spec)).startswith(("fp", "bf")):
                    changes[name] = {**spec, "dtype": dtype}
            variations.append((_ALL_DTYPES, changes))
        outcomes = _run_in_children(variations, run)
        if _PAST not in outcomes:
            return {}
        facts = {"tried": len(outcomes), "alike": False, "depends_on": [_ALL_DTYPES]}
        return {"variations": facts}

    def _judge(
        self,
        variations: list[tuple[str, _Arguments]],
        arguments: _Arguments,
        place: list[_Position],
        reason: str,
        compile_launch: _Compile,
    ) -> Json:
        if len(variations) > _MAX_VARIATIONS:
            return {}

        def run(changes: _Arguments) -> str:
            return self._outcome({**arguments, **changes}, place, reason, compile_launch)

        outcomes = _run_in_children(variations, run)
        by_argument: dict[str, set[str]] = {}
        for (name, _), outcome in zip(variations, outcomes):
            by_argument.setdefault(name, set()).add(outcome)
        # Tensors whose dtypes must be equal are varied together.
        for name in by_argument:
            if _has_dtype(arguments.get(name)):
                by_argument[name] |= by_argument.get(_ALL_DTYPES, set())
        depends_on = _dependence(variations, outcomes, arguments)
        informative_names = []
        for name, results in by_argument.items():
            if results.intersection(_INFORMATIVE):
                informative_names.append(name)
        # Every varied argument must have shown how the line behaves, and one at least reach it.
        reaches = any(results & {_SAME, _CHANGED} for results in by_argument.values())
        is_complete = len(outcomes) == len(variations)
        is_complete = is_complete and len(informative_names) == len(by_argument)
        alike = is_complete and not depends_on and (reaches or not variations)
        if not alike and not depends_on:
            return {}
        facts = {"tried": len(outcomes), "alike": alike, "depends_on": depends_on}
        return {"variations": facts}

    def _outcome(
        self,
        arguments: _Arguments,
        place: list[_Position],
        reason: str,
        compile_launch: _Compile,
    ) -> str:
        self._path.begin(place)
        try:
            compile_launch(arguments)
        except releases.StageReached:
            return _PAST if self._path.is_passed else _SKIPPED
        except Exception as error:
            # Arguments of another kind raise any error, in the launcher too.
            if self._path.failed and _positions(self._path.failed) == place:
                return _SAME if _reason(error) == reason else _CHANGED
            return _PAST if self._path.is_passed else _ELSEWHERE
        return _SKIPPED


def _dependence(
    variations: list[tuple[str, _Arguments]], outcomes: list[str], arguments: _Arguments
) -> list[str]:
    """Return the argument that a failing line depends on, an empty list if none shows it."""
    if _PAST in outcomes:
        return [variations[outcomes.index(_PAST)][0]]
    # A line with several requirements, such as floats and a size: no variation meets all.
    for (name, changes), outcome in zip(variations, outcomes):
        if outcome == _CHANGED and _are_usual(name, changes, arguments):
            return [name]
    return []


def _reason(error: BaseException) -> str:
    """Return the text of an error's first cause without names of dtypes and numbers."""
    while error.__cause__ is not None:
        error = error.__cause__
    return _DTYPE_OR_NUMBER.sub("#", f"{type(error).__name__}: {error}")


def is_dependency_error(error: BaseException) -> bool:
    """Return True for an error of the search for the functions that a kernel uses."""
    traceback = error.__traceback__
    while traceback is not None:
        reader = traceback.tb_frame.f_locals.get("self")
        if type(reader).__name__ == "DependenciesFinder":
            return True
        traceback = traceback.tb_next
    return False


def _position(node: ast.AST) -> _Position:
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return line, column, type(node).__name__


def _positions(nodes: Iterable[ast.AST]) -> list[_Position]:
    return [_position(node) for node in nodes]


def _variations(
    function: Kernel, arguments: _Arguments, nodes: list[ast.AST]
) -> Iterator[tuple[str, _Arguments]]:
    """Yield (argument, changed arguments) for each variation of a launch.

    The arguments that the failing statement depends on are varied alone, and all tensors together.
    """
    definition, statement = _outer_statement(nodes)
    names = _names_leading_to(statement, definition)
    parameters = {parameter.name: parameter for parameter in function.params}
    texts = _texts_in(definition)
    together: dict[str, dict[str, ArgumentSpec]] = {}
    for name, spec in arguments.items():
        if name in parameters and isinstance(spec, dict) and "dtype" in spec:
            for dtype in (*_FLOATS, "i32"):
                together.setdefault(dtype, {})[name] = {**spec, "dtype": dtype}
    for changes in together.values():
        yield _ALL_DTYPES, changes
    # The first variation that gets past the line ends the search, and tensors are the likeliest.
    varied_names = [name for name in arguments if name in parameters and name in names]
    varied_names.sort(key=lambda name: not _has_dtype(arguments[name]))
    for name in varied_names:
        spec, is_constant = arguments[name], parameters[name].is_constexpr
        if names[name] and not is_constant and _is_number(spec):
            continue
        for other in _other_specs(spec, is_constant, texts):
            yield name, {name: other}


def _are_usual(name: str, changes: _Arguments, arguments: _Arguments) -> bool:
    """Return True if all tensors become floats together, or a constant another size.

    Another error for arguments of another kind shows nothing.
    """
    if name == _ALL_DTYPES:
        return all(_dtype_of(spec) in _FLOATS for spec in changes.values())
    return type(_constant_of(arguments[name])) is type(_constant_of(changes[name])) is int


def _dtype_of(spec: ArgumentSpec) -> Any:
    return spec.get("dtype") if isinstance(spec, dict) else None


def _constant_of(spec: ArgumentSpec) -> Any:
    return spec.get("constexpr") if isinstance(spec, dict) else None


def _is_number(spec: ArgumentSpec) -> bool:
    return isinstance(spec, dict) and ("int" in spec or "float" in spec)


def _has_dtype(spec: ArgumentSpec) -> bool:
    return isinstance(spec, dict) and "dtype" in spec


def _outer_statement(nodes: list[ast.AST]) -> tuple[ast.AST, ast.AST]:
    """Return the launched kernel's definition, and its statement or branch on the failing path."""
    definition = statement = nodes[0]
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and definition is not nodes[0]:
            # The body of a called kernel.
            break
        if isinstance(node, ast.FunctionDef):
            definition = node
        elif isinstance(node, ast.stmt):
            statement = node
    return definition, statement


def _names_leading_to(statement: ast.AST, definition: ast.AST) -> dict[str, bool]:
    """Return the names on which a statement's values depend, through all assignments.

    Each name is mapped to True if it leads to an address only: the dtype and the shape of a loaded
    value do not depend on the numbers in its address.
    """
    assignments: dict[str, dict[str, bool]] = {}
    for node in ast.walk(definition):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For)):
            targets = [node.target]
        value = node.iter if isinstance(node, ast.For) else getattr(node, "value", None)
        if value is None:
            continue
        for target in targets:
            for name in _used_names(target):
                _add_names(assignments.setdefault(name, {}), _used_names(value), False)
    names: dict[str, bool] = {}
    waiting = list(_used_names(_head(statement)).items())
    while waiting:
        name, is_address = waiting.pop()
        if name in names and names[name] <= is_address:
            continue
        names[name] = is_address
        for used_name, is_used_in_address in assignments.get(name, {}).items():
            waiting.append((used_name, is_address or is_used_in_address))
    return names


def _used_names(node: ast.AST) -> dict[str, bool]:
    """Return the names in an expression, each with True if it is part of an address only."""
    names: dict[str, bool] = {}
    if isinstance(node, ast.Name):
        names[node.id] = False
    for child in ast.iter_child_nodes(node):
        is_address = isinstance(node, ast.Call) and called_name(node) in _MEMORY_FUNCTIONS
        _add_names(names, _used_names(child), is_address)
    return names


def _add_names(names: dict[str, bool], others: Mapping[str, bool], is_address: bool) -> None:
    for name, is_own_address in others.items():
        names[name] = names.get(name, True) and (is_own_address or is_address)


def _head(statement: ast.AST) -> ast.AST:
    """Return the part of a branch or loop that is evaluated before its body."""
    if isinstance(statement, (ast.If, ast.While)):
        return statement.test
    if isinstance(statement, ast.For):
        return statement.iter
    return statement


def _texts_in(definition: ast.AST) -> list[str]:
    """Return the texts that a kernel compares its constants with, the first few."""
    texts: dict[str, None] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Compare):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    texts[part.value] = None
    return list(texts)[:_MAX_TEXTS]


def _other_specs(spec: ArgumentSpec, is_constant: bool, texts: list[str]) -> Iterator[ArgumentSpec]:
    """Yield other arguments for a parameter: of other dtypes, ranks, values and kinds, and None."""
    if is_constant:
        for constant in _other_constants(spec, texts):
            yield {"constexpr": constant}
        return
    others: list[ArgumentSpec] = [{"dtype": "fp32", "align": 16}, {"dtype": "i32", "align": 16}]
    if _has_dtype(spec) or spec is None:
        others += [{"dtype": "fp16", "align": 16}, {"int": 16}]
    others += [{"float": 0.5}, {"int": 1}, None]
    if isinstance(spec, dict) and "tuple" in spec:
        items = list(spec["tuple"])
        others += [{"tuple": items[:-1]}, {"tuple": [*items, *items[-1:]]}, *items[:1]]
    if isinstance(spec, dict) and ("descriptor" in spec or "dtype" in spec):
        others += _descriptors(spec)
    for other in others:
        if other != spec:
            yield other


def _descriptors(spec: Mapping[str, Any]) -> Iterator[ArgumentSpec]:
    """Yield tensor descriptors of other ranks and dtypes than an argument's."""
    own_fields = spec.get("descriptor", {})
    for rank in (1, 2, 3, 4):
        block = [1] * (rank - 2) + [64] * min(rank, 2)
        dtypes = [own_fields.get("dtype", spec.get("dtype")), "fp32"]
        for dtype in dict.fromkeys(dtypes):
            strides = [64 ** (rank - 1 - axis) for axis in range(rank)]
            fields = {"dtype": dtype, "align": 16, "shape": [64] * rank}
            yield {"descriptor": {**fields, "strides": strides, "block": block}}


def _other_constants(spec: ArgumentSpec, texts: list[str]) -> Iterator[Any]:
    value = spec
    if isinstance(spec, dict):
        value = next(iter(spec.values()), None)
    others: list[Any] = [None]
    if isinstance(value, dict) and "function" in value:
        return
    if isinstance(value, bool):
        others += [not value]
    elif isinstance(value, (int, float)):
        others += [1, 2 * value, value // 2, True]
        if isinstance(value, int):
            others += _TILE_SIZES
    elif isinstance(value, dict) and "dtype" in value:
        others += [{"dtype": name} for name in ("fp32", "fp16", "int32")]
    elif value is None:
        others += [True, 16, 0.5, {"dtype": "fp32"}, *texts]
    else:
        others += [*texts, 16]
    for other in others:
        # In Python `True == 1`.
        if (type(other), other) != (type(value), value):
            yield other


def _run_in_children(
    variations: list[tuple[str, _Arguments]], run: Callable[[_Arguments], str]
) -> list[str]:
    """Return the outcomes in order up to the first that gets past the failing place.

    They are fewer if the time or the child processes are used up. The compiler's library may end
    the process for arguments that no release expects.
    """
    outcomes: list[str] = []
    end = time.monotonic() + _MAX_SECONDS
    for _ in range(_MAX_CHILDREN):
        remaining = [changes for _, changes in variations[len(outcomes) :]]
        if not remaining or time.monotonic() > end:
            break
        outcomes += _outcomes_of_child(remaining, run, end)
        if _PAST in outcomes:
            break
        if len(outcomes) < len(variations):
            # The child died of the next one.
            outcomes.append(_ELSEWHERE)
    return outcomes[: len(variations)]


def _outcomes_of_child(
    changes_list: list[_Arguments], run: Callable[[_Arguments], str], end: float
) -> list[str]:
    """Return the outcomes that a child process reports until it ends."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _report_outcomes(changes_list, run, writer)
    os.close(writer)
    text = b""
    try:
        while True:
            ready, _, _ = select.select([reader], [], [], max(end - time.monotonic(), 0))
            part = os.read(reader, 65536) if ready else b""
            if not part:
                break
            text += part
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return [json.loads(line) for line in text.splitlines() if line.endswith(b'"')]


def _report_outcomes(
    changes_list: list[_Arguments], run: Callable[[_Arguments], str], writer: int
) -> None:
    """Write one outcome a line and end the process."""
    try:
        # The output of variations is not the launch's.
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        for changes in changes_list:
            outcome = run(changes)
            os.write(writer, f"{json.dumps(outcome)}\n".encode())
            if outcome == _PAST:
                break
    finally:
        os._exit(0)
