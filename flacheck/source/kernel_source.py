"""A kernel file as text and syntax tree: which module-level source a kernel uses, and its digest."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flacheck.errors import MatrixError

DECLARATIONS = ("OPERATOR", "SHAPES", "KERNELS")


@dataclass(frozen=True)
class KernelSource:
    """A kernel file as text and syntax tree; `bound` maps a module-level name to the statements
    that bind it.
    """

    file: Path
    text: str
    tree: ast.Module
    bound: Mapping[str, tuple[ast.stmt, ...]]

    @staticmethod
    def of(file: Path) -> KernelSource:
        return KernelSource.parsed(file, file.read_text(encoding="utf-8"))

    @staticmethod
    def parsed(file: Path, text: str) -> KernelSource:
        """A text as the contents of a file. Raises MatrixError for one that is no Python."""
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise MatrixError(str(file), error.lineno, f"no Python: {error.msg}") from error
        bound: dict[str, tuple[ast.stmt, ...]] = {}
        for statement in tree.body:
            for name in bindings(statement):
                bound[name] = (*bound.get(name, ()), statement)
        return KernelSource(file, text, tree, bound)

    def function(self, name: object) -> ast.FunctionDef | None:
        """The module's function of that name."""
        found = [s for s in self.bound.get(str(name), ()) if isinstance(s, ast.FunctionDef)]
        return found[-1] if found else None

    def digest(self, name: str) -> str:
        """SHA-256 of the function's source with all module-level statements that it uses, directly
        or not.

        The declarations are not followed: a cell's launch and options hold by value what they say
        of it.
        """
        used: set[ast.stmt] = set()
        names = [name]
        while names:
            for statement in self.bound.get(names.pop(), ()):
                if statement not in used:
                    used.add(statement)
                    names += sorted(free_names(statement) - set(DECLARATIONS))
        lines = self.text.splitlines()
        parts = [
            "\n".join(lines[first_line(s) - 1 : s.end_lineno]) for s in sorted(used, key=first_line)
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def first_line(statement: ast.stmt) -> int:
    """The line on which a statement begins, its decorators included."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return min([statement.lineno, *(d.lineno for d in statement.decorator_list)])
    return statement.lineno


def bindings(statement: ast.stmt) -> set[str]:
    """The module-level names that a top-level statement binds, or changes in place."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    found: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            found |= {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
    return found


def free_names(statement: ast.stmt) -> set[str]:
    """The names that a statement reads, less those a function gives to its own parameters and
    variables.
    """
    if not isinstance(statement, ast.FunctionDef):
        return {
            n.id
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
    outside = [
        *statement.decorator_list,
        *statement.args.defaults,
        *filter(None, statement.args.kw_defaults),
    ]
    outside += [
        a.annotation for a in ast.walk(statement.args) if isinstance(a, ast.arg) and a.annotation
    ]
    local = {a.arg for a in ast.walk(statement.args) if isinstance(a, ast.arg)}
    inside = [n for s in statement.body for n in ast.walk(s) if isinstance(n, ast.Name)]
    local |= {n.id for n in inside if isinstance(n.ctx, ast.Store)}
    read_outside = {n.id for o in outside for n in ast.walk(o) if isinstance(n, ast.Name)}
    return read_outside | ({n.id for n in inside if isinstance(n.ctx, ast.Load)} - local)
