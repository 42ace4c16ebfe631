"""Syntax trees of kernels: walking, substituting and writing them; a statement's reads and writes."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

Tree = TypeVar("Tree", bound=ast.AST)
Block = list[ast.stmt]
COMPOUND = (ast.For, ast.While, ast.If)


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def constant(node: ast.AST | None) -> bool:
    """Whether it is a literal, a negative number among them."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, ast.Constant)


def value_of(node: ast.expr) -> object:
    """The value of a literal."""
    return ast.literal_eval(node)


def called(node: ast.AST) -> str:
    """The name of what a call calls (`tl.dot`, `x.to` as `.to`), empty for what is no call."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute) and not _is_path(node.func.value):
        return "." + node.func.attr
    return ast.unparse(node.func)


def _is_path(node: ast.expr) -> bool:
    """`tl`, `tl.math`, `triton`: where the language's functions are found."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("tl", "triton")


def reads(node: ast.AST) -> set[str]:
    """Names that are read anywhere in it; an augmented assignment reads its target too."""
    found = {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    return found | {
        n.target.id
        for n in ast.walk(node)
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }


def writes(node: ast.AST) -> set[str]:
    """Names that are bound anywhere in it."""
    return {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def assigned(statement: ast.stmt) -> str | None:
    """The one plain name that a statement assigns, or None."""
    if (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
    ):
        return statement.targets[0].id
    return None


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def blocks(body: Block) -> Iterator[Block]:
    """A body and all bodies inside it, outermost first."""
    yield body
    for statement in body:
        if isinstance(statement, COMPOUND):
            yield from blocks(statement.body)
            yield from blocks(statement.orelse)


def statements(body: Block) -> Iterator[ast.stmt]:
    """Every statement below a body, in the order of the text."""
    for statement in body:
        yield statement
        if isinstance(statement, COMPOUND):
            yield from statements(statement.body)
            yield from statements(statement.orelse)


def kept(body: Block, keep: Callable[[ast.stmt], bool]) -> Block:
    """The body without the statements that are not kept, at any depth; emptied branches go too."""
    result = []
    for statement in body:
        if not keep(statement):
            continue
        if isinstance(statement, COMPOUND):
            statement.body, statement.orelse = (
                kept(statement.body, keep),
                kept(statement.orelse, keep),
            )
            if not statement.body and not statement.orelse:
                continue
            statement.body = statement.body or [ast.Pass()]
        result.append(statement)
    return result


def without_dead(body: Block) -> Block:
    """The body without assignments of names that nothing reads, until none is left."""
    while True:
        live = set().union(*map(reads, body)) if body else set()
        count = sum(1 for _ in statements(body))
        body = kept(body, lambda s, live=live: not _dead(s, live))  # type: ignore[misc]
        if sum(1 for _ in statements(body)) == count:
            return body


def _dead(statement: ast.stmt, live: set[str]) -> bool:
    if isinstance(statement, (ast.Pass, ast.Assert)):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, (ast.Constant, ast.Name))
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id not in live
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return not writes(statement) & live and not _has_effect(statement)
    return False


def _has_effect(statement: ast.stmt) -> bool:
    return any(
        called(n).startswith(("tl.atomic", "tl.store", "tl.debug")) for n in ast.walk(statement)
    )


class Substitution(ast.NodeTransformer):
    """Replaces reads of names by expressions; each place gets a copy of its own."""

    def __init__(self, by: Mapping[str, ast.expr]) -> None:
        self._by = by

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._by:
            return copy.deepcopy(self._by[node.id])
        return node


class Renaming(ast.NodeTransformer):
    """Renames variables and parameters."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._names.get(node.arg, node.arg)
        return node


def substituted(tree: Tree, by: Mapping[str, ast.expr]) -> Tree:
    result: Tree = Substitution(by).visit(tree)
    return result


def replaced(tree: Tree, old: ast.AST, new: ast.AST) -> Tree:
    """A copy of the tree with one of its nodes replaced; the node is known by identity."""
    result: Tree = copy.deepcopy(tree, {id(old): new})
    return result


def free_name(taken: set[str], stem: str) -> str:
    """`stem`, or the first of `stem_2`, `stem_3`… that is not taken."""
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name
