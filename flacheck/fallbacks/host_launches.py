"""Where host code launches a kernel: read with `ast` where `kernel[grid](…)` is called, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from flacheck.capture.coverage import launchable
from flacheck.fallbacks.host_code import HostLaunch, measures
from flacheck.inputs import corpus
from flacheck.model import Kernel
from flacheck.packages.package import Package
from flacheck.source.source import content, read

Function = ast.FunctionDef | ast.AsyncFunctionDef


def host_launches(
    kernel: Kernel, parameters: tuple[str, ...], packages: Mapping[str, Package]
) -> list[HostLaunch]:
    """Every place in a kernel's package, or in our own file of it, that launches it; none where
    that is not known.
    """
    if "corpus" in kernel.origin:
        return _of_file(
            corpus.folder() / f"{kernel.origin['corpus']}.py",
            str(kernel.origin["name"]),
            parameters,
        )
    package = packages.get(kernel.package or "")
    if package is None:
        return []
    root = Path(package.path)
    launchers = launchable(root, kernel.name.partition(".")[0]).get(kernel.name, ())
    files = {root / read(root, launcher.partition(":")[0]).file for launcher in launchers}
    name = kernel.name.rpartition(":")[2]
    return [launch for file in sorted(files) for launch in _of_file(file, name, parameters)]


@cache
def _functions(file: Path) -> tuple[Function, ...]:
    try:
        tree = ast.parse(content(file))
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


@cache
def _of_file(file: Path, name: str, parameters: tuple[str, ...]) -> list[HostLaunch]:
    return [
        HostLaunch(
            _passed(call, parameters),
            _assigned(function, call.lineno),
            _ones(function),
            _taken(function),
        )
        for function in _functions(file)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Subscript)
        and getattr(call.func.value, "id", "") == name
    ]


def _passed(call: ast.Call, parameters: tuple[str, ...]) -> dict[str, ast.expr]:
    by_place = zip(parameters, call.args)
    return {
        **dict(by_place),
        **{keyword.arg: keyword.value for keyword in call.keywords if keyword.arg},
    }


def _taken(function: Function) -> frozenset[str]:
    """The parameters without a number as default: `chunk_size=64` is the host code's own choice."""
    arguments = function.args
    by_place = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(by_place), reversed(arguments.defaults)),
        *zip(arguments.kwonlyargs, arguments.kw_defaults),
    ]
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
    equal = (
        test for test in tests if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
    )
    return frozenset(
        test.left.id
        for test in equal
        if isinstance(test.left, ast.Name) and getattr(test.comparators[0], "value", None) == 1
    )


def _pairs(target: ast.expr, expression: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Each assigned name with its expression; what is unpacked out of a shape is an entry of that
    shape.
    """
    if isinstance(target, ast.Name):
        yield target.id, expression
    if not isinstance(target, ast.Tuple):
        return
    names = target.elts
    if (
        isinstance(expression, ast.Tuple)
        and len(expression.elts) == len(names)
        and not _starred(expression.elts)
    ):
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
    return next((part for part in plain if measures(part)), None)
