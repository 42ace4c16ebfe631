"""The `-D` options by which a project's Python build would configure its CMake project.

They are read from `setup.py`, which is not run, and from scikit-build's table in `pyproject.toml`.
"""

import ast
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flacheck.errors import MatrixError
from flacheck.source.builds.build_file import is_file, read_text
from flacheck.source.builds.script_library import Library
from flacheck.source.builds.script_run import ScriptWalk, StepBudget, Stopped
from flacheck.source.builds.script_values import TooLarge, is_scalar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_BYTES = 1 << 20
_MOST_STEPS = 50_000
# The values of options whose value depends on the machine: of the usual build for an H100.
_USUAL = {"CMAKE_BUILD_TYPE": "Release", "TORCH_CUDA_ARCH_LIST": "9.0a"}
_ARCHITECTURE = "90a"


def read(root: Path) -> dict[str, str]:
    """Return the options of a project by name; empty if its build files name none.

    An option under a condition that depends on the machine is among them. A value that depends on
    the machine is that of a usual build, or the option's own name.
    """
    options: dict[str, str] = {}
    with contextlib.suppress(MatrixError):
        if is_file(root / "setup.py"):
            options |= _of_script(root / "setup.py", root)
        if is_file(root / "pyproject.toml"):
            options |= _of_project_file(root / "pyproject.toml", root)
    return options


def _of_project_file(file: Path, root: Path) -> dict[str, str]:
    try:
        tables: Any = tomllib.loads(read_text(file, root, _MOST_BYTES))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    for name in ("tool", "scikit-build", "cmake"):
        tables = tables.get(name)
        if not isinstance(tables, Mapping):
            return {}
    options: dict[str, str] = {}
    arguments = tables.get("args")
    for argument in arguments if isinstance(arguments, list) else []:
        options |= _split(str(argument))
    defines = tables.get("define")
    for name, value in defines.items() if isinstance(defines, Mapping) else ():
        if isinstance(value, bool):
            value = "ON" if value else "OFF"
        if is_scalar(value):
            options[name] = str(value)
    return options


def _of_script(file: Path, root: Path) -> dict[str, str]:
    try:
        tree = ast.parse(read_text(file, root, _MOST_BYTES))
        budget = StepBudget(_MOST_STEPS)
        walk = ScriptWalk(file, root, budget, {}, Library(root, budget.spend))
        with contextlib.suppress(Stopped):
            walk.follow(tree)
        reader = _OptionReader(walk)
        reader.visit(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, TooLarge):
        return {}
    return reader.options


class _OptionReader(ast.NodeVisitor):
    """Collects the texts of a script that are options of CMake, in branches that may be taken."""

    def __init__(self, walk: ScriptWalk) -> None:
        self._walk = walk
        self.options: dict[str, str] = {}

    def visit_If(self, node: ast.If) -> None:
        truth = self._walk.truth_of(node.test)
        branches = []
        if truth is not False:
            branches += node.body
        if truth is not True:
            branches += node.orelse
        for statement in branches:
            self.visit(statement)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.options |= _split(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.options |= _split("".join(self._text(part) for part in node.values))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add) and _is_text(node.left):
            self.options |= _split(self._text(node.left) + self._text(node.right))
        else:
            self.generic_visit(node)

    def _text(self, node: ast.expr) -> str:
        """Return the text of a part of an option, empty if it depends on the machine."""
        if isinstance(node, ast.FormattedValue):
            node = node.value
        if ast.unparse(node) == "sys.executable":
            return sys.executable
        value = self._walk.value_of(node)
        if isinstance(value, bool) and isinstance(node, ast.Call):
            value = int(value)
        if not is_scalar(value) or value is None:
            return ""
        return str(value)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _split(text: str) -> dict[str, str]:
    """Return the option in a text as `-DNAME=VALUE` or `-DNAME:TYPE=VALUE`, as a mapping."""
    definition, equals, value = text.strip().partition("=")
    name = definition.removeprefix("-D").partition(":")[0]
    if not definition.startswith("-D") or not equals or not name.isidentifier():
        return {}
    if value:
        return {name: value}
    if name in _USUAL:
        return {name: _USUAL[name]}
    if "ARCH" in name:
        return {name: _ARCHITECTURE}
    return {name: name}
