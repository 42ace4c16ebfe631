"""What syntax says at a glance: names, sequence lengths, and the statement that chooses `mode` by
one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MODE = "mode"
TRAINING = "self.training"
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
# An argument holds nothing but its annotation; the others hold nothing, and are most of a tree.
_LEAVES = (ast.arg, ast.Constant, ast.expr_context, ast.operator, ast.cmpop)
_LENGTH_NAME = re.compile(r"[TL]|\w*len(gth)?")


@dataclass(frozen=True)
class Switch:
    """The statement that chooses `mode` by a sequence length: its line and its text."""

    line: int
    text: str


def dotted(node: ast.AST | None) -> str | None:
    """`a.b.c` of a name or a chain of attributes, None for all else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := dotted(node.value)):
        return f"{base}.{node.attr}"
    return None


def evaluated(node: ast.AST) -> Iterable[ast.AST]:
    """A node's children without annotations: naming a layer as a type does not run it."""
    if isinstance(node, FUNCTION):
        return [*node.decorator_list, node.args, *node.body]
    if isinstance(node, ast.AnnAssign):
        return [node.target, *([node.value] if node.value else [])]
    return () if isinstance(node, _LEAVES) else ast.iter_child_nodes(node)


def inner_blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of statements that a statement holds."""
    for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        for field in ("body", "orelse", "finalbody"):
            yield getattr(part, field, [])


def all_names(node: ast.AST) -> frozenset[str]:
    """Every name below a node, in whatever branch."""
    found, todo = set(), [node]
    while todo:
        node = todo.pop()
        if name := dotted(node):
            found.add(name)
        else:
            todo += evaluated(node)
    return frozenset(found)


def stored(*nodes: ast.AST) -> frozenset[str]:
    """Every variable and attribute that is assigned below some nodes."""
    found: set[str] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if name := dotted(node):
            found.update([name] if isinstance(getattr(node, "ctx", None), ast.Store) else ())
        else:
            todo += evaluated(node)
    return frozenset(found)


def is_length(node: ast.expr) -> bool:
    """`q_len`, `T`, `x.shape[1]`, `x.shape[-2]`, `x.size(1)`: the second axis of (batch, sequence,
    features).
    """
    if isinstance(node, ast.Name):
        return bool(_LENGTH_NAME.fullmatch(node.id))
    if isinstance(node, ast.Subscript):
        owner, axis, attribute = node.value, node.slice, "shape"
    elif isinstance(node, ast.Call) and len(node.args) == 1:
        owner, axis, attribute = node.func, node.args[0], "size"
    else:
        return False
    return (
        isinstance(owner, ast.Attribute)
        and owner.attr == attribute
        and ast.unparse(axis) in ("1", "-2")
    )


def limit(node: ast.AST) -> int | None:
    """The constant that a comparison holds against a sequence length, None for any other node."""
    if not isinstance(node, ast.Compare) or len(node.comparators) != 1:
        return None
    left, right = node.left, node.comparators[0]
    constant = right if is_length(left) else left if is_length(right) else None
    return (
        constant.value
        if isinstance(constant, ast.Constant) and type(constant.value) is int
        else None
    )


def limits(node: ast.AST) -> set[int]:
    """Every constant that a sequence length is compared with below a node."""
    return {bound for part in ast.walk(node) if (bound := limit(part)) is not None}


def targets(node: ast.stmt) -> list[ast.expr]:
    """What a statement assigns to."""
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


def sets_mode(node: ast.stmt) -> bool:
    """Whether a statement assigns the name `mode`."""
    return any(dotted(target) == MODE for target in targets(node))


def chooses_mode(node: ast.If) -> bool:
    """Whether a branch of an `if` assigns `mode` directly."""
    return any(sets_mode(statement) for statement in (*node.body, *node.orelse))


def switch(node: ast.AST) -> Switch | None:
    """The first statement of a definition that chooses `mode` by a sequence length."""
    found = [
        (part.lineno, text)
        for part in ast.walk(node)
        if isinstance(part, ast.stmt) and (text := _choice(part))
    ]
    return Switch(*min(found)) if found else None


def _choice(node: ast.stmt) -> str | None:
    """The text of a statement that chooses `mode` by a length, of an `if` only its head."""
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}" if chooses_mode(node) and limits(node.test) else None
    return ast.unparse(node) if sets_mode(node) and limits(node) else None
