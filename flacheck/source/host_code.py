"""What host code passes for a kernel's parameters where it launches it (`kernel[grid](…)`): sizes
of the data, or choices of its own. Read, never run."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from flacheck.source import syntax
from flacheck.source.modules import launchable, read
from flacheck.source.values import UNKNOWN, value

# How many assignments a value is followed through; `x = f(x)` has no end.
_DEPTH = 6
SIZE, COVERS, CALLER, HOST = "size", "covers", "given", "computed"
# Where a name has several values, the kind that leaves the least room for a change counts.
_WORST = (SIZE, COVERS, CALLER, HOST)


@dataclass(frozen=True)
class HostLaunch:
    """One place that launches a kernel: the expression passed for each parameter, all that the
    enclosing function assigns to each of its names before that line, the names that it asserts to
    be 1, and its own parameters."""

    arguments: Mapping[str, ast.expr]
    assignments: Mapping[str, tuple[ast.expr, ...]] = field(default_factory=dict)
    ones: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()

    def kind(self, parameter: str) -> str:
        """`size`: of the data; `covers`: a power of two that holds all of a size; `given`: whoever
        calls the host code says it; `computed`: the host code chooses it."""
        expression = self.arguments[parameter]
        if isinstance(expression, ast.Name) and expression.id in self._alone():
            return COVERS
        return self._kind(expression, _DEPTH)

    def _alone(self) -> set[str]:
        """Tiles of which one is enough: the host has `assert NK == 1` after `NK = cdiv(K, BK)`."""
        tiles = set()
        for name in self.ones:
            for count in self.assignments.get(name, ()):
                if isinstance(count, ast.Call) and len(count.args) == 2:
                    tiles.add(getattr(count.args[1], "id", ""))
        return tiles

    def uses(self, parameter: str) -> frozenset[str]:
        """The names that the value of a parameter is made of, directly or not."""
        names: set[str] = set()
        todo = [self.arguments[parameter]]
        while todo:
            for name in syntax.names_below(todo.pop()) - names:
                names.add(name)
                todo += self.assignments.get(name, ())
        return frozenset(names)

    def is_determined_by(self, parameter: str, by: Iterable[str]) -> bool:
        """Whether a parameter's value rests only on constants and what is passed for others."""
        given = {getattr(self.arguments[name], "id", name) for name in by if name in self.arguments}
        return self._rests(self.arguments[parameter], given)

    def _rests(self, node: ast.expr, known: set[str]) -> bool:
        """`known` grows by the names looked at: what is made of itself rests on its other parts."""
        for name in syntax.names_below(node) - known:
            # Before its parts are looked at: `x = f(x)` would never end.
            known.add(name)
            made = self.assignments.get(name, ())
            if not made and name in self.parameters:
                return False
            if not all(self._rests(each, known) for each in made):
                return False
        return True

    def values(self, known: Mapping[str, Any], parameter: str) -> list[int]:
        """What the expression of a parameter may be worth where some names have known values."""
        if parameter not in self.arguments:
            return []
        return self._values(self.arguments[parameter], known, _DEPTH)

    def _values(self, node: ast.expr, known: Mapping[str, Any], depth: int) -> list[int]:
        # Branches may assign a name differently, and both arms may be taken.
        several: tuple[ast.expr, ...] = ()
        if isinstance(node, ast.Name) and node.id not in known and depth:
            several, depth = self.assignments.get(node.id, ()), depth - 1
        elif isinstance(node, ast.IfExp):
            several = (node.body, node.orelse)
        if several:
            return [each for one in several for each in self._values(one, known, depth)]
        worth = value(node, lambda part: known.get(getattr(part, "id", ""), UNKNOWN))
        if type(worth) is int:
            return [worth]
        return []

    def _kind(self, node: ast.expr, depth: int) -> str:
        if isinstance(node, ast.Name):
            made = self.assignments.get(node.id, ())
            if not made and node.id in self.parameters:
                return CALLER
            return _worst(self._kind(each, depth - 1) for each in made if depth)
        if isinstance(node, ast.IfExp):
            return _worst(self._kind(arm, depth) for arm in (node.body, node.orelse))
        if measures(node):
            return SIZE
        if isinstance(node, ast.BinOp):
            # A size by a size or a number, `HQ // H`; by a choice of the host it counts tiles.
            sides = [side for side in (node.left, node.right) if not isinstance(side, ast.Constant)]
            if sides and all(self._kind(side, depth) == SIZE for side in sides):
                return SIZE
        if isinstance(node, ast.Call):
            return self._of_call(node, depth)
        return HOST

    def _of_call(self, call: ast.Call, depth: int) -> str:
        kinds = [self._kind(given, depth) for given in call.args]
        if syntax.called_name(call) == "next_power_of_2" and kinds and kinds[0] != HOST:
            return COVERS
        if syntax.called_name(call) == "max":
            return {SIZE: COVERS}.get(_worst(kinds), _worst(kinds))
        # The least of a size and of anything else is what the host chooses, as long as that is
        # smaller.
        return HOST


def _worst(kinds: Iterable[str]) -> str:
    return min(kinds, key=_WORST.index, default=HOST)


def measures(node: ast.expr) -> bool:
    """`x.shape[-1]`, `x.size(0)`, `len(x)`: a size of the data."""
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
    """Every launch of `module:kernel`, with these parameters, in the package below a folder."""
    launchers = launchable(root, kernel.partition(".")[0]).get(kernel, ())
    files = {root / read(root, launcher.partition(":")[0]).file for launcher in launchers}
    name = kernel.rpartition(":")[2]
    return [launch for file in sorted(files) for launch in launches_in_file(file, name, names)]


@cache
def launches_in_file(file: Path, kernel: str, names: tuple[str, ...]) -> tuple[HostLaunch, ...]:
    """Every place in a file that launches that kernel, once for each function around it."""
    launches = []
    for function in ast.walk(syntax.tree(syntax.content(file))):
        if isinstance(function, syntax.FUNCTION):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and syntax.launched_name(call) == kernel:
                    launches.append(_launch(function, call, names))
    return tuple(launches)


def _launch(function: syntax.Function, call: ast.Call, names: tuple[str, ...]) -> HostLaunch:
    passed = dict(zip(names, call.args))
    for keyword in call.keywords:
        if keyword.arg:
            passed[keyword.arg] = keyword.value
    assigned: dict[str, tuple[ast.expr, ...]] = {}
    ones = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and node.lineno < call.lineno:
            for target in node.targets:
                for name, expression in _pairs(target, node.value):
                    assigned[name] = (*assigned.get(name, ()), expression)
        elif isinstance(node, ast.Assert):
            match node.test:
                # `NK` of `assert NK == 1`.
                case ast.Compare(ast.Name(single), [ast.Eq(), *_], [ast.Constant(1), *_]):
                    ones.add(single)
    # `chunk_size=64` is the host code's own choice, like a constant.
    chosen = {
        name
        for name, default in syntax.defaults(function.args).items()
        if type(getattr(default, "value", None)) is int
    }
    taken = {parameter.arg for parameter in syntax.parameters(function)}
    return HostLaunch(passed, assigned, frozenset(ones), frozenset(taken - chosen))


def _pairs(target: ast.expr, expression: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Each assigned name with its expression; what is unpacked from a shape is an entry of it."""
    if isinstance(target, ast.Name):
        yield target.id, expression
    if not isinstance(target, ast.Tuple):
        return
    given = syntax.elements(expression) or [expression]
    if len(given) == len(target.elts) and not any(isinstance(e, ast.Starred) for e in given):
        for each, its in zip(target.elts, given):
            yield from _pairs(each, its)
        return
    # The first measure of data in `k.shape` or `*k.shape, v.shape[-1]` stands for all of them.
    parts = (part.value if isinstance(part, ast.Starred) else part for part in given)
    entry = next(filter(measures, parts), None)
    for name in syntax.names_in(target.elts):
        if entry:
            yield name, entry
