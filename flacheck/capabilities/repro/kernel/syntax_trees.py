"""Syntax trees of kernels: queries, and replacement of names and statements."""

import ast
import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from flacheck.guest.pysource.functions import dotted_name, names_of

Block = list[ast.stmt]
# The compound statements that Triton's front end accepts in a kernel.
COMPOUND = (ast.For, ast.While, ast.If)
DESCRIPTOR = "tl.make_tensor_descriptor"


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def variable(name: str) -> ast.Name:
    """Return a read of a variable."""
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def copied(part: Any, new: Mapping[int, ast.AST] | None = None) -> Any:
    """Return a copy of a node, or of a list of nodes, without positions in the text.

    `new` replaces nodes by identity. `copy.deepcopy` takes four times as long, and most of a search
    for smaller kernels is copying.
    """
    if isinstance(part, list):
        return [copied(item, new) for item in part]
    if not isinstance(part, ast.AST):
        return part
    if new and id(part) in new:
        return new[id(part)]
    kind = type(part)
    copy_of_part = kind.__new__(kind)
    for name, value in vars(part).items():
        if name in kind._fields:
            if isinstance(value, (ast.AST, list)):
                value = copied(value, new)
            setattr(copy_of_part, name, value)
    return copy_of_part


def is_literal(node: ast.AST) -> bool:
    """Return True for a literal, negative numbers included."""
    match node:
        case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return True
    return False


def callee_name(node: ast.AST) -> str:
    """Return the name of a call's function (`tl.dot`, `x.to` as `.to`); empty for other nodes."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        # The language's functions are in `tl`, `tl.math` and `triton`.
        root = str(dotted_name(node.func.value)).split(".")[0]
        if root not in ("tl", "triton"):
            return "." + node.func.attr
    return ast.unparse(node.func)


def names_in(node: ast.AST) -> list[ast.Name]:
    """Return every name that a node reads or binds, at any depth."""
    return [n for n in ast.walk(node) if isinstance(n, ast.Name)]


def reads(node: ast.AST) -> set[str]:
    """Return the names that a node reads; an augmented assignment also reads its target."""
    names = names_of(node, ast.Load)
    for part in ast.walk(node):
        if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
            names.add(part.target.id)
    return names


def writes(node: ast.AST) -> set[str]:
    """Return the names that a node binds, at any depth."""
    return names_of(node, ast.Store)


class Assignment(NamedTuple):
    """A plain `name = value`."""

    name: str
    value: ast.expr


def assignment(statement: ast.stmt) -> Assignment | None:
    """Return the assignment of a statement to one name; None for every other statement."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return Assignment(name, value)
    return None


def child_expressions(node: ast.AST) -> list[ast.expr]:
    """Return the expressions directly below a node, in the order of the text."""
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def blocks(body: Block) -> Iterator[Block]:
    """Yield a body and all bodies inside it, outermost first."""
    yield body
    for statement in body:
        if isinstance(statement, COMPOUND):
            yield from blocks(statement.body)
            yield from blocks(statement.orelse)


def all_statements(body: Block) -> Iterator[ast.stmt]:
    """Yield every statement below a body, in the order of the text."""
    for statement in body:
        yield statement
        if isinstance(statement, COMPOUND):
            yield from all_statements(statement.body)
            yield from all_statements(statement.orelse)


def expand_statements(body: Block, expand: Callable[[ast.stmt], Block]) -> Block:
    """Return the body, changed in place, with each statement replaced by its expansion."""
    for block in blocks(body):
        statements: Block = []
        for statement in block:
            statements += expand(statement)
        block[:] = statements
    return body


def keep_statements(body: Block, keep: Callable[[ast.stmt], bool]) -> Block:
    """Return the body with only the statements to keep, at any depth; drop empty branches."""
    result = []
    for statement in filter(keep, body):
        if isinstance(statement, COMPOUND):
            statement.body = keep_statements(statement.body, keep)
            statement.orelse = keep_statements(statement.orelse, keep)
            if not statement.body and not statement.orelse:
                continue
            # Python requires a statement in the first block, even if only the other has some.
            statement.body = statement.body or [ast.Pass()]
        result.append(statement)
    return result


def without_statements(body: Block, positions: Collection[int]) -> Block:
    """Return the body, changed in place, without the statements at these positions of the text."""
    dropped = [s for at, s in enumerate(all_statements(body)) if at in positions]
    return keep_statements(body, lambda statement: statement not in dropped)


def without_dead(body: Block) -> Block:
    """Return the body without assignments to names that no statement reads."""
    while True:
        # A name that only dead assignments read is dead in the next round.
        before, live = list(all_statements(body)), reads(ast.Module(body, []))
        dead = {at for at, statement in enumerate(before) if _is_dead(statement, live)}
        body = without_statements(body, dead)
        # The number decides, because an emptied block has a dead `pass` in every round.
        if len(list(all_statements(body))) == len(before):
            return body


def _is_dead(statement: ast.stmt, live: set[str]) -> bool:
    match statement:
        case ast.Pass() | ast.Assert() | ast.Expr(value=ast.Constant() | ast.Name()):
            return True
        case ast.AugAssign(target=ast.Name(id=name)):
            return name not in live
        case ast.Assign() | ast.AnnAssign():
            # These calls write memory, even if their result is not used.
            effects = ("tl.atomic", "tl.store", "tl.debug")
            if any(callee_name(node).startswith(effects) for node in ast.walk(statement)):
                return False
            return not writes(statement) & live
    return False


class _Substitution(ast.NodeTransformer):
    """A transformer that replaces reads of names by expressions."""

    def __init__(self, by: Mapping[str, ast.expr]) -> None:
        self._by = by

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._by:
            return copy.deepcopy(self._by[node.id])
        return node


class Renaming(ast.NodeTransformer):
    """A transformer that renames variables and parameters."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._names.get(node.arg, node.arg)
        return node


def substitute(body: Block, by: Mapping[str, ast.expr]) -> Block:
    """Return the body, changed in place, with a copy of an expression for each read of a name."""
    return [_Substitution(by).visit(statement) for statement in body]


class Extraction(ast.NodeTransformer):
    """A transformer that moves parts of a statement into statements `before` it."""

    def __init__(self, used_names: set[str]) -> None:
        self.used_names = used_names
        self.before: Block = []

    def visit_IfExp(self, node: ast.expr) -> ast.expr:
        """Keep a branch as it is, because it may never be evaluated."""
        return node

    visit_Lambda = visit_IfExp

    def new_name(self, stem: str) -> str:
        """Reserve and return `stem`, or the first unused of `stem_2`, `stem_3` and so on."""
        name, number = stem, 2
        while name in self.used_names:
            name, number = f"{stem}_{number}", number + 1
        self.used_names.add(name)
        return name
