"""The expression at a place in a source file, and the source text of its operands."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

from flacheck import files
from flacheck.capabilities.dtypes.observation import Operand, Place


@dataclass(frozen=True)
class SourceFile:
    """A source file of the program, with the names that it imports."""

    text: str
    tree: ast.Module | None
    import_names: frozenset[str]

    def line(self, number: int) -> str:
        lines = self.text.splitlines()
        if 0 < number <= len(lines):
            return lines[number - 1].strip()
        return ""

    def segment(self, node: ast.AST) -> str:
        return ast.get_source_segment(self.text, node) or ""


@functools.cache
def read_source(path: str) -> SourceFile:
    """Return a file with its syntax tree; an empty one for a file that is not valid Python."""
    try:
        text = files.read_text(Path(path), links=True)
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return SourceFile("", None, frozenset())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                names.add((alias.asname or alias.name).partition(".")[0])
    return SourceFile(text, tree, frozenset(names))


def find_statement(place: Place) -> str:
    """Return the statement around a place, joined to one line."""
    file = read_source(place.file)
    if file.tree is None:
        return file.line(place.line)
    match: ast.stmt | None = None
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        if _holds(node, place):
            match = node
    if match is None:
        return file.line(place.line)
    return " ".join(file.segment(match).split())


def _holds(node: ast.stmt, place: Place) -> bool:
    """Return whether a place lies within a statement; lines decide where columns are missing."""
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    if place.column is None:
        return node.lineno <= place.line <= end[0]
    return (node.lineno, node.col_offset) <= (place.line, place.column) <= end


def find_expression(place: Place) -> ast.expr | None:
    """Return the expression that stands exactly at a place.

    Without columns, it is the line's only operation with operands.
    """
    file = read_source(place.file)
    if file.tree is None:
        return None
    on_line = []
    for node in ast.walk(file.tree):
        if not isinstance(node, (ast.Call, ast.BinOp)) or node.lineno != place.line:
            continue
        if place.column is None:
            on_line.append(node)
        elif (node.col_offset, node.end_lineno, node.end_col_offset) == (
            place.column,
            place.end_line,
            place.end_column,
        ):
            return node
    if place.column is None and len(on_line) == 1:
        return on_line[0]
    return None


def find_operand(node: ast.expr, import_names: frozenset[str], at: str) -> ast.expr | None:
    """Return the operand of an operation at a position or keyword, or its part at an index."""
    argument, *indices = at.split(".")
    operand = _find_argument(node, import_names, argument)
    for index in indices:
        # The source shows the parts of a tuple or list alone that is written in the call.
        parts = operand.elts if isinstance(operand, (ast.Tuple, ast.List)) else []
        if int(index) >= len(parts) or any(isinstance(part, ast.Starred) for part in parts):
            return None
        operand = parts[int(index)]
    return operand


def _find_argument(node: ast.expr, import_names: frozenset[str], at: str) -> ast.expr | None:
    if isinstance(node, ast.BinOp):
        return {"0": node.left, "1": node.right}.get(at)
    if not isinstance(node, ast.Call):
        return None
    for keyword in node.keywords:
        if keyword.arg == at:
            return keyword.value
    if not at.isdigit():
        return None
    arguments: list[ast.expr] = list(node.args)
    function = node.func
    if isinstance(function, ast.Attribute) and _root(function) not in import_names:
        # The tensor is the first operand of its method.
        arguments.insert(0, function.value)
    number = int(at)
    if number < len(arguments) and not any(isinstance(a, ast.Starred) for a in arguments):
        return arguments[number]
    return None


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    return ""


def describe_operand(place: Place, direct: bool, operand: Operand) -> str:
    """Return an operand's source text, else that of its list, else its name in the module."""
    node = find_expression(place) if direct else None
    if node is not None:
        file = read_source(place.file)
        for position in (operand.at, operand.at.partition(".")[0]):
            match = find_operand(node, file.import_names, position)
            if match is not None:
                return " ".join(file.segment(match).split())
    if operand.name and operand.kind in ("parameter", "buffer"):
        return f"self.{operand.name}"
    if operand.name:
        return operand.name
    return "a float32 tensor"
