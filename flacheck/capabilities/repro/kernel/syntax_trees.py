"""Syntax trees of kernels: what is in them, and trees with names or statements replaced."""

import ast
import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from flacheck.source import syntax

Block = list[ast.stmt]
# The statements with blocks of their own that Triton's front end takes in a kernel.
COMPOUND = (ast.For, ast.While, ast.If)


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def variable(name: str) -> ast.Name:
    """A read of a variable."""
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def is_literal(node: ast.AST) -> bool:
    """Whether it is a literal, a negative number among them."""
    match node:
        case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return True
    return False


def callee_name(node: ast.AST) -> str:
    """The name of what a call calls (`tl.dot`, `x.to` as `.to`), empty for what is no call."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        # `tl`, `tl.math`, `triton`: where the language's functions are found.
        root = str(syntax.dotted_name(node.func.value)).split(".")[0]
        if root not in ("tl", "triton"):
            return "." + node.func.attr
    return ast.unparse(node.func)


def parameter_names(function: ast.FunctionDef) -> list[str]:
    return [parameter.arg for parameter in syntax.parameters(function)]


def names_in(node: ast.AST) -> list[ast.Name]:
    """Every name that is read or bound anywhere in it."""
    return [n for n in ast.walk(node) if isinstance(n, ast.Name)]


def reads(node: ast.AST) -> set[str]:
    """Names that are read anywhere in it; an augmented assignment reads its target too."""
    augmented = [n.target for n in ast.walk(node) if isinstance(n, ast.AugAssign)]
    loaded = [n for n in names_in(node) if isinstance(n.ctx, ast.Load)]
    return {n.id for n in [*loaded, *augmented] if isinstance(n, ast.Name)}


def writes(node: ast.AST) -> set[str]:
    """Names that are bound anywhere in it."""
    return {n.id for n in names_in(node) if isinstance(n.ctx, ast.Store)}


class Assignment(NamedTuple):
    """A plain `name = value`."""

    name: str
    value: ast.expr


def assignment(statement: ast.stmt) -> Assignment | None:
    """What a statement assigns to one name; None for every other statement."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return Assignment(name, value)
    return None


def child_expressions(node: ast.AST) -> list[ast.expr]:
    """The expressions directly below a node, in the order of the text."""
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def blocks(body: Block) -> Iterator[Block]:
    """A body and all bodies inside it, outermost first."""
    yield body
    for statement in body:
        if isinstance(statement, COMPOUND):
            yield from blocks(statement.body)
            yield from blocks(statement.orelse)


def all_statements(body: Block) -> Iterator[ast.stmt]:
    """Every statement below a body, in the order of the text."""
    for statement in body:
        yield statement
        if isinstance(statement, COMPOUND):
            yield from all_statements(statement.body)
            yield from all_statements(statement.orelse)


def expand_statements(body: Block, expand: Callable[[ast.stmt], Block]) -> Block:
    """The body, changed in place, with the statements that each statement stands for."""
    for block in blocks(body):
        block[:] = [part for statement in block for part in expand(statement)]
    return body


def keep_statements(body: Block, keep: Callable[[ast.stmt], bool]) -> Block:
    """The body without the statements that are not kept, at any depth; emptied branches go too."""
    result = []
    for statement in filter(keep, body):
        if isinstance(statement, COMPOUND):
            statement.body = keep_statements(statement.body, keep)
            statement.orelse = keep_statements(statement.orelse, keep)
            if not statement.body and not statement.orelse:
                continue
            # Python wants a statement in the first block, even where only the other side is left.
            statement.body = statement.body or [ast.Pass()]
        result.append(statement)
    return result


def without_statements(body: Block, doomed: Collection[int]) -> Block:
    """The body, changed in place, without its statements at these positions of the text."""
    lost = [statement for at, statement in enumerate(all_statements(body)) if at in doomed]
    return keep_statements(body, lambda statement: statement not in lost)


def without_dead(body: Block) -> Block:
    """The body without assignments of names that nothing reads, until none is left."""
    while True:
        # What only a dead assignment read is dead in the next round.
        before, live = list(all_statements(body)), reads(ast.Module(body, []))
        body = without_statements(body, {at for at, s in enumerate(before) if _is_dead(s, live)})
        if len(list(all_statements(body))) == len(before):
            return body


def _is_dead(statement: ast.stmt, live: set[str]) -> bool:
    match statement:
        case ast.Pass() | ast.Assert() | ast.Expr(value=ast.Constant() | ast.Name()):
            return True
        case ast.AugAssign(target=ast.Name(id=name)):
            return name not in live
        case ast.Assign() | ast.AnnAssign():
            # They write memory, whatever becomes of their result.
            effects = ("tl.atomic", "tl.store", "tl.debug")
            if any(callee_name(node).startswith(effects) for node in ast.walk(statement)):
                return False
            return not writes(statement) & live
    return False


class _Substitution(ast.NodeTransformer):
    """Replaces reads of names by expressions."""

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


def substitute(body: Block, by: Mapping[str, ast.expr]) -> Block:
    """The body, changed in place, with expressions for reads of names; each read gets a copy."""
    return [_Substitution(by).visit(statement) for statement in body]


class Extraction(ast.NodeTransformer):
    """Takes parts out of a statement: `before` holds the statements that compute them."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.before: Block = []

    def visit_IfExp(self, node: ast.expr) -> ast.expr:
        """A branch may never be evaluated: what is in it stays."""
        return node

    visit_Lambda = visit_IfExp

    def new_name(self, stem: str) -> str:
        """`stem`, or the first of `stem_2`, `stem_3`… that is not taken, and is from now on."""
        name, number = stem, 2
        while name in self.taken:
            name, number = f"{stem}_{number}", number + 1
        self.taken.add(name)
        return name
