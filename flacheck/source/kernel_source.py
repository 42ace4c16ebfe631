"""A kernel file as text and syntax tree, with the digest of all that a kernel uses."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flacheck import files
from flacheck.errors import MatrixError
from flacheck.guest.pysource.functions import names_of
from flacheck.source.syntax import DEFINITION, first_line, parse

# Declarations of a kernel file for a scan; kernels do not compute with them.
DECLARATIONS = ("OPERATOR", "SHAPES", "KERNELS")
# Files whose trees are kept: kernel files import from each other.
_MAX_FILES = 64


@dataclass(frozen=True)
class KernelSource:
    """A kernel file; `bound` maps a module-level name to the statements that bind it."""

    file: Path
    text: str
    tree: ast.Module
    bound: Mapping[str, tuple[ast.stmt, ...]]
    # The names that each statement reads, once they are collected.
    _read_names: dict[ast.stmt, set[str]] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(file: Path) -> KernelSource:
        """Read a kernel file; raise MatrixError if it is not Python.

        The syntax tree of an unchanged file is shared: do not change it.
        """
        return _parsed(file, files.read_text(file, links=True))

    @staticmethod
    def from_text(file: Path, text: str) -> KernelSource:
        """Parse a text as the contents of a file; raise MatrixError if it is not Python."""
        try:
            tree = parse(text)
        except SyntaxError as error:
            raise MatrixError(str(file), error.lineno, f"not Python: {error.msg}") from error
        bound: dict[str, tuple[ast.stmt, ...]] = {}
        for statement in tree.body:
            for name in bindings(statement):
                bound[name] = (*bound.get(name, ()), statement)
        return KernelSource(file, text, tree, bound)

    def function(self, name: object) -> ast.FunctionDef | None:
        """Return the module's last function of that name."""
        for statement in reversed(self.bound.get(str(name), ())):
            if isinstance(statement, ast.FunctionDef):
                return statement
        return None

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a function and of the module-level statements that it uses.

        Statements count when they are used directly or through others, and so do those of files
        from which they are imported (`from .file import name`). The declarations do not: a cell's
        launch and options hold their values.
        """
        statements: set[ast.stmt] = set()
        imported: set[str] = set()
        names = [name]
        while names:
            used = names.pop()
            if self.definition(used)[0] is not self:
                imported.add(used)
                continue
            for statement in self.bound.get(used, ()):
                if statement not in statements:
                    statements.add(statement)
                    names += sorted(self._names_read_by(statement) - set(DECLARATIONS))
        lines = self.text.splitlines()
        parts = []
        for statement in sorted(statements, key=first_line):
            start = first_line(statement) - 1
            parts += lines[start : statement.end_lineno]
        for used in sorted(imported):
            source, original = self.definition(used)
            parts.append(f"{used} {source.digest(original)}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _names_read_by(self, statement: ast.stmt) -> set[str]:
        if statement not in self._read_names:
            self._read_names[statement] = free_names(statement)
        return self._read_names[statement]

    def definition(self, name: str) -> tuple[KernelSource, str]:
        """Return the file that defines a name, and the name there: `from .file import name`.

        Raises MatrixError if the imported file is missing.
        """
        for statement in self.bound.get(name, ()):
            if not isinstance(statement, ast.ImportFrom) or statement.level != 1:
                continue
            for alias in statement.names:
                if (alias.asname or alias.name) == name:
                    file = self.file.parent / f"{statement.module}.py"
                    if not file.is_file():
                        raise MatrixError(str(self.file), statement.lineno, f"no file {file.name}")
                    return KernelSource.of(file).definition(alias.name)
        return self, name


@functools.lru_cache(maxsize=_MAX_FILES)
def _parsed(file: Path, text: str) -> KernelSource:
    return KernelSource.from_text(file, text)


def bindings(statement: ast.stmt) -> set[str]:
    """Return the module-level names that a top-level statement binds or changes in place."""
    if isinstance(statement, DEFINITION):
        return {statement.name}
    names: set[str] = set()
    for node in ast.walk(statement):
        stores = isinstance(getattr(node, "ctx", None), ast.Store)
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and stores:
            names.add(node.id)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and stores:
            # `table["x"] = f` changes what `table` means to a kernel.
            names |= names_of(node.value)
    return names


def free_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement reads, except a function's parameters and variables."""
    if not isinstance(statement, ast.FunctionDef):
        return names_of(statement, ast.Load)
    # Decorators, defaults and annotations are read where the function is defined.
    outside: set[str] = set()
    for part in (*statement.decorator_list, statement.args):
        outside |= names_of(part)
    local = {each.arg for each in ast.walk(statement.args) if isinstance(each, ast.arg)}
    loads: set[str] = set()
    for part in statement.body:
        local |= names_of(part, ast.Store)
        loads |= names_of(part, ast.Load)
    return outside | (loads - local)
