"""The form that is read: usual names, one step a line. Proposed last and taken whatever the order
says.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Mapping

from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import COMPOUND, Block, assign, blocks, called, free_name, writes

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_POINTERS = ("x_ptr", "y_ptr", "z_ptr", "w_ptr", "u_ptr", "v_ptr")
_STEPS = (
    "tl.load",
    "tl.dot",
    "tl.sum",
    "tl.max",
    "tl.min",
    "tl.exp",
    "tl.trans",
    "tl.cumsum",
    "tl.associative_scan",
)


class Reading:
    """One step a line with usual names; else the names alone."""

    name = "reading"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        if not (yield named(stepwise(best))):
            yield named(best)


def stepwise(specimen: Specimen) -> Specimen:
    """Loads, dots and reductions inside other expressions get statements of their own."""
    with edited(specimen) as kernel:
        taken = {n.id for s in kernel.body for n in ast.walk(s) if isinstance(n, ast.Name)} | set(
            kernel.args
        )
        for block in blocks(kernel.body):
            block[:] = [part for statement in block for part in _apart(statement, taken)]
    return kernel.specimen


def _apart(statement: ast.stmt, taken: set[str]) -> Block:
    if isinstance(statement, COMPOUND):
        return [statement]
    before: Block = []
    changed = _Steps(statement, taken, before).visit(statement)
    return [*before, changed]


class _Steps(ast.NodeTransformer):
    """Names what is nested, inner first."""

    def __init__(self, statement: ast.stmt, taken: set[str], before: Block) -> None:
        value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
        self._whole, self._taken, self._before = value, taken, before

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        whole = node is self._whole
        self.generic_visit(node)
        if whole or called(node) not in _STEPS:
            return node
        name = free_name(self._taken, "step")
        self._taken.add(name)
        self._before.append(assign(name, node))
        return ast.Name(name, ast.Load())


def named(specimen: Specimen) -> Specimen:
    """The kernel called `kernel`, pointers `x_ptr`…, variables `a`, `b`… in the order in which they
    are bound.
    """
    names = {**_parameters(specimen), **_variables(specimen)}
    if len(set(names.values())) != len(names):
        return specimen
    with edited(specimen) as kernel:
        kernel.args = {names.get(name, name): spec for name, spec in kernel.args.items()}
        kernel.rename(names, "kernel")
    return kernel.specimen


def _parameters(specimen: Specimen) -> dict[str, str]:
    pointers = iter(_POINTERS)
    found = {}
    for name, spec in specimen.args.items():
        if isinstance(spec, Mapping) and "dtype" in spec and (usual := next(pointers, None)):
            found[name] = usual
    return found


def _variables(specimen: Specimen) -> dict[str, str]:
    """Letters for variables; none where they run out or a parameter has one."""
    bound: dict[str, None] = {}
    for statement in specimen.function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.setdefault(node.id)
    taken = set(specimen.args) | (_other_names(specimen) - set(bound))
    letters = [letter for letter in _LETTERS if letter not in taken]
    return dict(zip(bound, letters)) if len(bound) <= len(letters) else {}


def _other_names(specimen: Specimen) -> set[str]:
    read = {n.id for n in ast.walk(specimen.function) if isinstance(n, ast.Name)}
    return read - writes(specimen.function)
