"""What host code passes for a kernel's parameters: read with `ast` where `kernel[grid](…)` is called, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from flacheck import corpus
from flacheck.capture.coverage import launchable
from flacheck.fallbacks.arithmetic import UNKNOWN, value
from flacheck.model import Kernel
from flacheck.reach.source import content, read
from flacheck.toolchains.packages import Package

_DEPTH = 6
SIZE, COVERS, GIVEN, COMPUTED = "size", "covers", "given", "computed"
_WORST = (SIZE, COVERS, GIVEN, COMPUTED)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class HostLaunch:
    """One place that launches a kernel: the expression passed for each parameter, all that the enclosing function
    assigns to each of its names before that line, the names that it asserts to be 1, and its own parameters."""

    passed: Mapping[str, ast.expr]
    assigned: Mapping[str, tuple[ast.expr, ...]] = field(default_factory=dict)
    ones: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()

    def kind(self, parameter: str) -> str:
        """`size`: of the data; `covers`: a power of two that holds all of a size; `given`: whoever calls the host code
        says it; `computed`: the host code chooses it."""
        if parameter not in self.passed:
            return COMPUTED
        expression = self.passed[parameter]
        alone = isinstance(expression, ast.Name) and expression.id in self._alone()
        return COVERS if alone else self._kind(expression, _DEPTH)

    def _alone(self) -> set[str]:
        """The tiles of which the host asserts that one is enough: `assert NK == 1` after `NK = cdiv(K, BK)`."""
        counts = (each for name in self.ones for each in self.assigned.get(name, ()) if isinstance(each, ast.Call))
        return {count.args[1].id for count in counts if len(count.args) == 2 and isinstance(count.args[1], ast.Name)}

    def uses(self, parameter: str) -> frozenset[str]:
        """The names that the value of a parameter is made of, directly or not."""
        found: set[str] = set()
        todo = [self.passed[parameter]] if parameter in self.passed else []
        while todo:
            for node in ast.walk(todo.pop()):
                if isinstance(node, ast.Name) and node.id not in found:
                    found.add(node.id)
                    todo += self.assigned.get(node.id, ())
        return frozenset(found)

    def values(self, known: Mapping[str, Any], parameter: str) -> list[Any]:
        """What the expression of a parameter may be worth where some names have known values."""
        return self._values(self.passed[parameter], known, _DEPTH) if parameter in self.passed else []

    def _values(self, node: ast.expr, known: Mapping[str, Any], depth: int) -> list[Any]:
        if isinstance(node, ast.Name) and node.id not in known and depth:
            return [each for one in self.assigned.get(node.id, ()) for each in self._values(one, known, depth - 1)]
        if isinstance(node, ast.IfExp):
            return [*self._values(node.body, known, depth), *self._values(node.orelse, known, depth)]
        worth = value(node, known)
        return [] if worth is UNKNOWN else [worth]

    def _kind(self, node: ast.expr, depth: int) -> str:
        if isinstance(node, ast.Name):
            kinds = [self._kind(each, depth - 1) for each in self.assigned.get(node.id, ()) if depth]
            given = node.id in self.parameters and node.id not in self.assigned
            return GIVEN if given else _worst(kinds)
        if isinstance(node, ast.IfExp):
            return _worst([self._kind(node.body, depth), self._kind(node.orelse, depth)])
        if _measures(node) or self._is_ratio(node, depth):
            return SIZE
        return self._of_call(node, depth) if isinstance(node, ast.Call) else COMPUTED

    def _is_ratio(self, node: ast.expr, depth: int) -> bool:
        """A size by a size or a number, `HQ // H`; by what the host chooses it is a count of tiles."""
        if not isinstance(node, ast.BinOp):
            return False
        sides = [
            SIZE if isinstance(side, ast.Constant) else self._kind(side, depth) for side in (node.left, node.right)
        ]
        return sides == [SIZE, SIZE]

    def _of_call(self, call: ast.Call, depth: int) -> str:
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        kinds = [self._kind(argument, depth) for argument in call.args]
        if called == "next_power_of_2" and kinds and kinds[0] != COMPUTED:
            return COVERS
        if called == "max":
            return {SIZE: COVERS}.get(_worst(kinds), _worst(kinds))
        # The least of a size and of anything else is what the host chooses, as long as that is smaller.
        return COMPUTED


def host_launches(kernel: Kernel, parameters: tuple[str, ...], packages: Mapping[str, Package]) -> list[HostLaunch]:
    """Every place in a kernel's package, or in our own file of it, that launches it; none where that is not known."""
    if "corpus" in kernel.origin:
        return _of_file(corpus.folder() / f"{kernel.origin['corpus']}.py", str(kernel.origin["name"]), parameters)
    package = packages.get(kernel.package or "")
    if package is None:
        return []
    root = Path(package.path)
    launchers = _launchers(root, kernel.name.partition(".")[0]).get(kernel.name, ())
    files = {root / read(root, launcher.partition(":")[0]).file for launcher in launchers}
    name = kernel.name.rpartition(":")[2]
    return [launch for file in sorted(files) for launch in _of_file(file, name, parameters)]


@cache
def _launchers(root: Path, prefix: str) -> Mapping[str, tuple[str, ...]]:
    return launchable(root, prefix)


def _worst(kinds: Iterable[str]) -> str:
    return min(kinds, key=_WORST.index, default=COMPUTED)


def _measures(node: ast.expr) -> bool:
    """`x.shape[-1]`, `x.size(0)`, `len(x)`: a size of the data."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(inner, ast.Attribute):
        return inner.attr == "shape"
    return isinstance(inner, ast.Call) and (
        getattr(inner.func, "attr", "") in ("size", "numel") or getattr(inner.func, "id", "") == "len"
    )


@cache
def _functions(file: Path) -> tuple[Function, ...]:
    try:
        tree = ast.parse(content(file))
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


@cache
def _of_file(file: Path, name: str, parameters: tuple[str, ...]) -> list[HostLaunch]:
    return [
        HostLaunch(_passed(call, parameters), _assigned(function, call.lineno), _ones(function), _taken(function))
        for function in _functions(file)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Subscript)
        and getattr(call.func.value, "id", "") == name
    ]


def _passed(call: ast.Call, parameters: tuple[str, ...]) -> dict[str, ast.expr]:
    by_place = zip(parameters, call.args)
    return {**dict(by_place), **{keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}}


def _taken(function: Function) -> frozenset[str]:
    """The parameters without a number as default: `chunk_size=64` is the host code's own choice."""
    arguments = function.args
    by_place = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(by_place), reversed(arguments.defaults)), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
    chosen = {each.arg for each, default in pairs if type(getattr(default, "value", None)) is int}
    return frozenset(each.arg for each in (*by_place, *arguments.kwonlyargs)) - chosen


def _assigned(function: Function, line: int) -> dict[str, tuple[ast.expr, ...]]:
    found: dict[str, tuple[ast.expr, ...]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and node.lineno < line:
            for target in node.targets:
                for name, expression in _pairs(target, node.value):
                    found[name] = (*found.get(name, ()), expression)
    return found


def _ones(function: Function) -> frozenset[str]:
    tests = (node.test for node in ast.walk(function) if isinstance(node, ast.Assert))
    equal = (test for test in tests if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq))
    return frozenset(
        test.left.id
        for test in equal
        if isinstance(test.left, ast.Name) and getattr(test.comparators[0], "value", None) == 1
    )


def _pairs(target: ast.expr, expression: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Each assigned name with its expression; what is unpacked out of a shape is an entry of that shape."""
    if isinstance(target, ast.Name):
        yield target.id, expression
    if not isinstance(target, ast.Tuple):
        return
    names = target.elts
    if isinstance(expression, ast.Tuple) and len(expression.elts) == len(names) and not _starred(expression.elts):
        for each, its in zip(names, expression.elts):
            yield from _pairs(each, its)
    elif entry := _entry(expression):
        yield from ((each.id, entry) for each in names if isinstance(each, ast.Name))


def _starred(nodes: Iterable[ast.expr]) -> bool:
    return any(isinstance(node, ast.Starred) for node in nodes)


def _entry(expression: ast.expr) -> ast.expr | None:
    """The first measure of data in `k.shape` or `*k.shape, v.shape[-1]`."""
    parts = expression.elts if isinstance(expression, ast.Tuple) else [expression]
    plain = (part.value if isinstance(part, ast.Starred) else part for part in parts)
    return next((part for part in plain if _measures(part)), None)
