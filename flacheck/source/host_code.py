"""The arguments that host code passes to a kernel where it launches it (`kernel[grid](…)`).

An argument is a size of the data, or a choice of the host code. The code is read, never run.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from flacheck.guest.pysource.functions import names_of, parameter_names
from flacheck.source import syntax
from flacheck.source.modules import launchable, read
from flacheck.source.values import UNKNOWN, value

# The most assignments through which a value is followed; `x = f(x)` would never end.
_DEPTH = 6
SIZE, COVERS, CALLER, HOST = "size", "covers", "given", "computed"
# If a name has several values, the kind that leaves the least room for a change counts.
_WORST = (SIZE, COVERS, CALLER, HOST)


@dataclass(frozen=True)
class HostLaunch:
    """One place that launches a kernel.

    `arguments` holds the expression passed for each parameter, `assignments` all that the enclosing
    function assigns to each of its names before that line, `ones` the names that it asserts to be
    1, and `parameters` its own parameters.
    """

    arguments: Mapping[str, ast.expr]
    assignments: Mapping[str, tuple[ast.expr, ...]] = field(default_factory=dict)
    ones: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()

    def kind(self, parameter: str) -> str:
        """Return who decides the value of a parameter.

        `size`: the data; `covers`: a power of two that covers a size; `given`: the caller of the
        host code; `computed`: the host code itself.
        """
        expression = self.arguments[parameter]
        if isinstance(expression, ast.Name) and expression.id in self._single_tiles():
            return COVERS
        return self._kind(expression, _DEPTH)

    def _single_tiles(self) -> set[str]:
        """Return the tile sizes of which one tile is enough.

        The host code has `assert NK == 1` after `NK = cdiv(K, BK)`.
        """
        tiles = set()
        for name in self.ones:
            for count in self.assignments.get(name, ()):
                if isinstance(count, ast.Call) and len(count.args) == 2:
                    divisor = count.args[1]
                    tiles.add(getattr(divisor, "id", ""))
        return tiles

    def uses(self, parameter: str) -> frozenset[str]:
        """Return the names on which the value of a parameter depends, directly or not."""
        names: set[str] = set()
        todo = [self.arguments[parameter]]
        while todo:
            expression = todo.pop()
            for name in names_of(expression) - names:
                names.add(name)
                todo += self.assignments.get(name, ())
        return frozenset(names)

    def is_determined_by(self, parameter: str, others: Iterable[str]) -> bool:
        """Return True if a parameter depends only on constants and other parameters' arguments."""
        names = set()
        for other in others:
            if other in self.arguments:
                argument = self.arguments[other]
                names.add(getattr(argument, "id", other))
        return self._depends_on(self.arguments[parameter], names)

    def _depends_on(self, node: ast.expr, names: set[str]) -> bool:
        """Return True if a node depends only on `names`, to which the names visited are added."""
        for name in names_of(node) - names:
            # Before its assignments are visited: `x = f(x)` would never end.
            names.add(name)
            expressions = self.assignments.get(name, ())
            if not expressions and name in self.parameters:
                return False
            for expression in expressions:
                if not self._depends_on(expression, names):
                    return False
        return True

    def values(self, names: Mapping[str, Any], parameter: str) -> list[int]:
        """Return the possible values of a parameter's argument where some names have values."""
        if parameter not in self.arguments:
            return []
        return self._values(self.arguments[parameter], names, _DEPTH)

    def _values(self, node: ast.expr, names: Mapping[str, Any], depth: int) -> list[int]:
        # Branches may assign a name differently, and both arms may be taken.
        alternatives: tuple[ast.expr, ...] = ()
        if isinstance(node, ast.Name) and node.id not in names and depth:
            alternatives = self.assignments.get(node.id, ())
            depth -= 1
        elif isinstance(node, ast.IfExp):
            alternatives = (node.body, node.orelse)
        if alternatives:
            values = []
            for alternative in alternatives:
                values += self._values(alternative, names, depth)
            return values
        result = value(node, lambda part: names.get(getattr(part, "id", ""), UNKNOWN))
        if type(result) is int:
            return [result]
        return []

    def _kind(self, node: ast.expr, depth: int) -> str:
        if isinstance(node, ast.Name):
            expressions = self.assignments.get(node.id, ())
            if not expressions and node.id in self.parameters:
                return CALLER
            if not depth:
                return HOST
            return self._worst(expressions, depth - 1)
        if isinstance(node, ast.IfExp):
            return self._worst([node.body, node.orelse], depth)
        if measures(node):
            return SIZE
        if isinstance(node, ast.BinOp):
            # A size by a size or a number is a size (`HQ // H`); by a choice of the host it counts
            # tiles.
            sides = [side for side in (node.left, node.right) if not isinstance(side, ast.Constant)]
            if sides and all(self._kind(side, depth) == SIZE for side in sides):
                return SIZE
        if isinstance(node, ast.Call):
            return self._kind_of_call(node, depth)
        return HOST

    def _worst(self, nodes: Iterable[ast.expr], depth: int) -> str:
        kinds = [self._kind(node, depth) for node in nodes]
        return min(kinds, key=_WORST.index, default=HOST)

    def _kind_of_call(self, call: ast.Call, depth: int) -> str:
        function = syntax.called_name(call)
        is_power = function == "next_power_of_2" and bool(call.args)
        if is_power and self._kind(call.args[0], depth) != HOST:
            return COVERS
        if function == "max":
            worst = self._worst(call.args, depth)
            if worst == SIZE:
                return COVERS
            return worst
        # The host chooses the minimum of a size and anything else as long as that is smaller.
        return HOST


def measures(node: ast.expr) -> bool:
    """Return True for a size of the data: `x.shape[-1]`, `x.size(0)`, `len(x)`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr == "shape"
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in ("size", "numel")
    return syntax.called_name(node) == "len"


def launches_in_package(root: Path, kernel: str, names: tuple[str, ...]) -> list[HostLaunch]:
    """Return every launch of `module:kernel`, with these parameters, in a folder's package."""
    name = _last(kernel.rpartition(":")[2])
    launchers = launchable(root, kernel.partition(":")[0], (kernel,))
    files = set()
    for launcher in launchers.get(kernel, ()):
        launching_module = launcher.partition(":")[0]
        files.add(root / read(root, launching_module).file)
    launches: list[HostLaunch] = []
    for file in sorted(files):
        launches += launches_in_file(file, name, names)
    return launches


@cache
def launches_in_file(file: Path, kernel: str, names: tuple[str, ...]) -> tuple[HostLaunch, ...]:
    """Return every launch of the kernel in a file, once for each function around it."""
    launches = []
    for function in ast.walk(syntax.tree(syntax.content(file))):
        if not isinstance(function, syntax.FUNCTION):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and kernel in map(_last, syntax.launched_names(call)):
                launches.append(_launch(function, call, names))
    return tuple(launches)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _launch(function: syntax.Function, call: ast.Call, names: tuple[str, ...]) -> HostLaunch:
    arguments = dict(zip(names, call.args))
    for keyword in call.keywords:
        if keyword.arg:
            arguments[keyword.arg] = keyword.value
    assignments: dict[str, tuple[ast.expr, ...]] = {}
    ones = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and node.lineno < call.lineno:
            for target in node.targets:
                for name, expression in _pairs(target, node.value):
                    assignments[name] = (*assignments.get(name, ()), expression)
        elif isinstance(node, ast.Assert):
            match node.test:
                # `NK` of `assert NK == 1`.
                case ast.Compare(ast.Name(single), [ast.Eq(), *_], [ast.Constant(1), *_]):
                    ones.add(single)
    parameters = set(parameter_names(function))
    for name, default in syntax.defaults(function.args).items():
        # `chunk_size=64` is the host code's own choice, like a constant.
        if type(getattr(default, "value", None)) is int:
            parameters.discard(name)
    return HostLaunch(arguments, assignments, frozenset(ones), frozenset(parameters))


def _pairs(target: ast.expr, expression: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield each assigned name with its expression; a name unpacked from a shape gets an entry."""
    if isinstance(target, ast.Name):
        yield target.id, expression
    if not isinstance(target, ast.Tuple):
        return
    sources = syntax.elements(expression) or [expression]
    is_starred = any(isinstance(source, ast.Starred) for source in sources)
    if len(sources) == len(target.elts) and not is_starred:
        for element, source in zip(target.elts, sources):
            yield from _pairs(element, source)
        return
    # The first measure of data in `k.shape` or `*k.shape, v.shape[-1]` stands for all of them.
    for source in sources:
        part = source.value if isinstance(source, ast.Starred) else source
        if measures(part):
            for name in syntax.names_in(target.elts):
                yield name, part
            return
