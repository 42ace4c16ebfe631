"""The file and line that define a kernel, for reports that point at source code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from flacheck.errors import FlacheckError
from flacheck.model import Corpus, Kernel
from flacheck.model.kernel import Unit
from flacheck.model.source_location import SourceLocation, locate_nowhere
from flacheck.source import modules, syntax
from flacheck.source.packages import package as packages
from flacheck.tables import find_shipped_folder

# The part of a qualified name that stands for the body of a function.
_LOCALS = "<locals>"
_DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class KernelLocator:
    """Finds kernels in a project, in installed packages and among flacheck's own files."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._locations: dict[tuple[str | None, str], SourceLocation] = {}

    def find(self, kernel: Kernel) -> SourceLocation:
        """Return the location of a kernel's definition, without a file if that cannot be found."""
        key = (kernel.package, kernel.name)
        if key not in self._locations:
            self._locations[key] = self._search(kernel)
        return self._locations[key]

    def _search(self, kernel: Kernel) -> SourceLocation:
        module, _, name = kernel.name.rpartition(":")
        for root, file in self._files(kernel, module):
            # A translation unit is a whole file.
            line = 1
            if not isinstance(kernel.origin, Unit):
                definition_line = _line_of(file, name.rpartition(".")[2] if not module else name)
                if definition_line is None:
                    continue
                line = definition_line
            return SourceLocation(self._relative_path(file, root), line, kernel.name)
        return locate_nowhere(kernel)

    def _files(self, kernel: Kernel, module: str) -> Iterator[tuple[Path, Path]]:
        """Yield the files that may define a kernel, each with its root, the project's first."""
        if isinstance(kernel.origin, Corpus):
            folder = find_shipped_folder("kernels")
            yield folder.parent, folder / f"{kernel.origin.family}.py"
            return
        roots = [self._project, self._project / "src", *_package_folders(kernel.package)]
        for root in roots:
            file = modules.file_of(root, module) if module else root / kernel.name
            if file is not None and file.is_file():
                yield root, file

    def _relative_path(self, file: Path, root: Path) -> str:
        """Return a path relative to the project if possible, else to its package's folder."""
        if file.is_relative_to(self._project):
            root = self._project
        return file.relative_to(root).as_posix()


def _package_folders(identity: str | None) -> list[Path]:
    """Return the folder of a package that an earlier command installed."""
    if not identity:
        return []
    try:
        package = packages.installed_package(identity)
    except FlacheckError:
        # The identity of a record may come from another machine.
        return []
    if package is None:
        return []
    return [Path(package.path)]


def _line_of(file: Path, name: str) -> int | None:
    """Return the line of a function by its qualified name; None if the file lacks it."""
    scope: ast.AST | None = syntax.tree(syntax.content(file))
    for part in name.split("."):
        if part != _LOCALS and scope is not None:
            scope = _definition(scope, part)
    return getattr(scope, "lineno", None)


def _definition(scope: ast.AST, name: str) -> ast.AST | None:
    for node in ast.walk(scope):
        if isinstance(node, _DEFINITION) and node.name == name and node is not scope:
            return node
    return None
