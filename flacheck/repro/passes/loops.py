"""Control flow taken away: a loop becomes one turn of its body, a branch one of its sides."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator

from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.folding import folded
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import (
    COMPOUND,
    Block,
    blocks,
    expression,
    statements,
    substituted,
    writes,
)
from flacheck.repro.passes.expressions import trimmed


class ControlFlow:
    """Every loop and branch, outermost first: its body once, else the other side, else a loop of
    few turns.
    """

    name = "control flow"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        at = 0
        while at < _count(best):
            for candidate in _without(best, at):
                if (yield candidate):
                    best = candidate
                    break
            else:
                at += 1


def _count(specimen: Specimen) -> int:
    return sum(isinstance(s, COMPOUND) for s in statements(specimen.function.body))


def _without(specimen: Specimen, at: int) -> Iterator[Specimen]:
    for replace in (_once, _other_side, _short):
        with edited(specimen) as kernel:
            compound = [s for s in statements(kernel.body) if isinstance(s, COMPOUND)][at]
            new = replace(compound)
            if new is not None:
                _put(kernel.body, compound, new)
                kernel.body = folded(ast.Module(kernel.body, [])).body
        if new is not None:
            yield trimmed(kernel.specimen)


def _put(body: Block, old: ast.stmt, new: Block) -> None:
    for block in blocks(body):
        if old in block:
            at = block.index(old)
            block[at : at + 1] = new
            return


def _once(statement: ast.stmt) -> Block | None:
    """A loop's body with its variable at 0; a branch's first side."""
    if isinstance(statement, ast.For):
        names = {name: ast.Constant(0) for name in writes(statement.target)}
        return [substituted(s, names) for s in statement.body]
    return statement.body if isinstance(statement, (ast.If, ast.While)) else None


def _other_side(statement: ast.stmt) -> Block | None:
    return statement.orelse if isinstance(statement, ast.If) and statement.orelse else None


def _short(statement: ast.stmt) -> Block | None:
    """A loop of a number of turns that is written down."""
    if not isinstance(statement, ast.For) or not isinstance(statement.iter, ast.Call):
        return None
    if all(isinstance(a, ast.Constant) for a in statement.iter.args):
        return None
    statement.iter = expression("range(4)")
    return [statement]
