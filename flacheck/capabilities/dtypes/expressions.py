"""The expression at a place in a source file, and how its operands are written there."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

from flacheck.capabilities.dtypes.observation import Operand, Place


@dataclass(frozen=True)
class SourceFile:
    """A file that the program was run from."""

    text: str
    tree: ast.Module | None
    imported: frozenset[str]

    def line(self, number: int) -> str:
        lines = self.text.splitlines()
        if 0 < number <= len(lines):
            return lines[number - 1].strip()
        return ""

    def segment(self, node: ast.AST) -> str:
        return ast.get_source_segment(self.text, node) or ""


@functools.cache
def read_source(path: str) -> SourceFile:
    """What stands in a file; nothing for one that cannot be read as Python."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return SourceFile("", None, frozenset())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return SourceFile(text, tree, frozenset(names))


def find_statement(place: Place) -> str:
    """The statement that begins or stands at a place, in one line."""
    file = read_source(place.file)
    if file.tree is None:
        return file.line(place.line)
    found: ast.stmt | None = None
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        if _holds(node, place):
            found = node
    if found is None:
        return file.line(place.line)
    return " ".join(file.segment(found).split())


def _holds(node: ast.stmt, place: Place) -> bool:
    """Whether a place is within a statement; lines tell where there are no columns."""
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    if place.column is None:
        return node.lineno <= place.line <= end[0]
    return (node.lineno, node.col_offset) <= (place.line, place.column) <= end


def find_expression(place: Place) -> ast.expr | None:
    """The expression that stands exactly at a place; without columns the only operation on the
    line that has operands."""
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


def find_operand(node: ast.expr, imported: frozenset[str], at: str) -> ast.expr | None:
    """How an operation's operand at a position or keyword is written."""
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
    if isinstance(function, ast.Attribute) and _root(function) not in imported:
        # A tensor's method: the tensor comes first.
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


def find_operand_text(place: Place, direct: bool, given: Operand) -> str | None:
    """An operand as the program writes it, None where the source does not say."""
    if not direct:
        return None
    node = find_expression(place)
    if node is None:
        return None
    file = read_source(place.file)
    found = find_operand(node, file.imported, given.at)
    if found is None:
        return None
    return " ".join(file.segment(found).split())


def describe_operand(place: Place, direct: bool, given: Operand) -> str:
    """An operand for people: as it is written, else by its name in the module."""
    text = find_operand_text(place, direct, given)
    if text:
        return text
    if given.name and given.kind in ("parameter", "buffer"):
        return f"self.{given.name}"
    if given.name:
        return given.name
    return "a float32 tensor"
