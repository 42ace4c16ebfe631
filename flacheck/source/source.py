"""Reads the modules of a package with `ast`, each once: what each name is bound to."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from flacheck.source.definitions import Definition, definition
from flacheck.source.syntax import FUNCTION, inner_blocks, targets


@dataclass(frozen=True)
class Import:
    """`from module import name` (`*` too); without a name the module itself."""

    module: str
    name: str = ""


@dataclass(frozen=True)
class Module:
    """What each name of a module is bound to, more than one thing where branches bind it anew;
    empty when the module is missing or is no Python.
    """

    file: str = ""
    names: Mapping[str, tuple[Definition | Import, ...]] = field(default_factory=dict)

    def definitions(self, name: str) -> list[Definition]:
        return [bound for bound in self.names.get(name, ()) if isinstance(bound, Definition)]


def package_of(module: str) -> str:
    """The top-level package of a module."""
    return module.partition(".")[0]


@cache
def read(root: Path, module: str) -> Module:
    """A module of a package. Files that cannot be read or parsed are passed over: they reach
    nothing.
    """
    base = root.joinpath(*module.split("."))
    for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
        if path.is_file():
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            return Module(path.relative_to(root).as_posix(), _names(content(path), package))
    return Module()


def content(path: Path) -> bytes:
    """The bytes of a file, none of one that cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _names(source: bytes, package: str) -> dict[str, tuple[Definition | Import, ...]]:
    try:
        with warnings.catch_warnings():
            # Invalid escapes in other people's strings are none of our user's concern.
            warnings.simplefilter("ignore")
            return _bindings(ast.parse(source), package)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


def _bindings(tree: ast.Module, package: str) -> dict[str, tuple[Definition | Import, ...]]:
    """The names of a module; imports within functions count as if they stood outside."""
    bound: dict[str, list[Import | ast.stmt]] = {}
    for statement, outside in _statements(tree.body):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for name, target in _imports(statement, package):
                bound.setdefault(name, []).append(target)
        elif outside:
            for name in _defined(statement):
                bound.setdefault(name, []).append(statement)
    known = frozenset(bound)
    return {
        name: tuple(each if isinstance(each, Import) else definition(each, known) for each in items)
        for name, items in bound.items()
    }


def _statements(body: Iterable[ast.stmt], outside: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement, with whether it stands outside functions and classes."""
    for statement in body:
        yield statement, outside
        deeper = outside and not isinstance(statement, (*FUNCTION, ast.ClassDef))
        for block in inner_blocks(statement):
            yield from _statements(block, deeper)


def _imports(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Import]]:
    if isinstance(node, ast.Import):
        for item in node.names:
            whole = item.name if item.asname else package_of(item.name)
            yield item.asname or whole, Import(whole)
        return
    above = package.split(".")[: 1 - node.level or None] if node.level else []
    module = ".".join(filter(None, (*above, node.module)))
    for item in node.names:
        yield item.asname or item.name, Import(module, item.name)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (*FUNCTION, ast.ClassDef)):
        return [node.name]
    return [target.id for target in targets(node) if isinstance(target, ast.Name)]
