"""Control flow taken away: a loop becomes one turn of its body, a branch one of its sides."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator

from flacheck.repro.kernel.constant_folding import folded
from flacheck.repro.kernel.rewriting import rewritten, trimmed
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax_trees import (
    COMPOUND,
    Block,
    all_statements,
    expanded,
    expression,
    substituted_all,
    writes,
)
from flacheck.repro.passes.search import at_each


def control_flow(best: Specimen) -> Generator[Specimen, bool, None]:
    """Every loop and branch, outermost first: its body once, else the other side, else a loop of
    few turns.
    """
    yield from at_each(best, _positions, _without)


def _compounds(body: Block) -> list[ast.stmt]:
    return [s for s in all_statements(body) if isinstance(s, COMPOUND)]


def _positions(specimen: Specimen) -> range:
    return range(len(_compounds(specimen.function.body)))


def _without(specimen: Specimen, position: int) -> Iterator[Specimen]:
    for simplify in (_once, _other_side, _short):
        body = specimen.copied_body()
        old = _compounds(body)[position]
        new = simplify(old)
        if new is not None:
            yield trimmed(rewritten(specimen, folded(_put(body, old, new))))


def _put(body: Block, old: ast.stmt, new: Block) -> Block:
    return expanded(body, lambda statement: new if statement is old else [statement])


def _once(statement: ast.stmt) -> Block | None:
    """A loop's body with its variable at 0; a branch's first side."""
    if isinstance(statement, ast.For):
        zeros: dict[str, ast.expr] = {name: ast.Constant(0) for name in writes(statement.target)}
        return substituted_all(statement.body, zeros)
    if isinstance(statement, (ast.If, ast.While)):
        return statement.body
    return None


def _other_side(statement: ast.stmt) -> Block | None:
    if isinstance(statement, ast.If) and statement.orelse:
        return statement.orelse
    return None


def _short(statement: ast.stmt) -> Block | None:
    """A loop of a number of turns that is written down."""
    if not isinstance(statement, ast.For) or not isinstance(statement.iter, ast.Call):
        return None
    if all(isinstance(argument, ast.Constant) for argument in statement.iter.args):
        return None
    # More turns than a pipeline has stages by default, so that its loop is still one.
    statement.iter = expression("range(4)")
    return [statement]
