"""Fewer statements: delta debugging, big parts first, and control flow taken away."""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Iterator, Sequence

from flacheck.repro.kernel import syntax_trees as trees
from flacheck.repro.kernel.constant_folding import folded
from flacheck.repro.kernel.rewriting import rewritten, trimmed
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.passes.search import at_each, first_taken


def statements(best: Specimen) -> Generator[Specimen, bool, None]:
    """Statements, half of them at a time, then a quarter, at last one by one."""
    size = max(1, _count(best) // 2)
    while True:
        end = _count(best)
        while end > 0:
            shorter = _shorter(best, max(0, end - size), end)
            best = (yield from first_taken(shorter)) or best
            end = min(end - size, _count(best))
        if size == 1:
            return
        size = max(1, size // 2)


def _count(specimen: Specimen) -> int:
    return len(list(trees.all_statements(specimen.function.body)))


def _shorter(specimen: Specimen, start: int, end: int) -> Iterator[Specimen]:
    """Without the statements from `start` to `end`: those alone, then with all that needs them."""
    chunk = set(range(start, end))
    # A variable that is bound again elsewhere may be left, so the readers stay at first.
    yield _without(specimen, chunk)
    yield _without(specimen, closure(list(trees.all_statements(specimen.function.body)), chunk))


def _without(specimen: Specimen, doomed: set[int]) -> Specimen:
    body = specimen.copied_body()
    lost = [s for at, s in enumerate(trees.all_statements(body)) if at in doomed]
    return trimmed(rewritten(specimen, trees.kept(body, lambda statement: statement not in lost)))


def closure(body: Sequence[ast.stmt], chunk: set[int]) -> set[int]:
    """The chunk with every plain statement that reads what only it gave."""
    # Only plain statements follow: of a loop or branch, parts may still be needed.
    plain = {at: s for at, s in enumerate(body) if not isinstance(s, trees.COMPOUND)}
    doomed = set(chunk)
    while True:
        lost = set().union(*(trees.writes(body[at]) for at in doomed))
        left = {at: statement for at, statement in plain.items() if at not in doomed}
        lost -= set().union(*map(trees.writes, left.values()))
        more = {at for at, statement in left.items() if trees.reads(statement) & lost}
        if not more:
            return doomed
        doomed |= more


def control_flow(best: Specimen) -> Generator[Specimen, bool, None]:
    """Every loop and branch: its body once, else the other side, else a loop of few turns."""
    yield from at_each(best, _compounds, _simplified)


def _compounds(specimen: Specimen) -> list[ast.stmt]:
    """Loops and branches, outer before inner."""
    return [
        s for s in trees.all_statements(specimen.function.body) if isinstance(s, trees.COMPOUND)
    ]


def _simplified(specimen: Specimen, compound: ast.stmt) -> Iterator[Specimen]:
    for simplify in (_once, _other_side, _short):
        new = simplify(copy.deepcopy(compound))
        if new is not None:
            # Folding puts the statements of a branch that is always taken in its place.
            always = ast.If(ast.Constant(True), new, [])
            body = copy.deepcopy(specimen.function.body, {id(compound): always})
            yield trimmed(rewritten(specimen, folded(body)))


def _once(statement: ast.stmt) -> trees.Block | None:
    """A loop's body with its variable at 0; a branch's first side."""
    if isinstance(statement, ast.For):
        zeros: dict[str, ast.expr] = {
            name: ast.Constant(0) for name in trees.writes(statement.target)
        }
        return trees.substituted(statement.body, zeros)
    if isinstance(statement, (ast.If, ast.While)):
        return statement.body
    return None


def _other_side(statement: ast.stmt) -> trees.Block | None:
    if isinstance(statement, ast.If) and statement.orelse:
        return statement.orelse
    return None


def _short(statement: ast.stmt) -> trees.Block | None:
    """A loop of a number of turns that is written down."""
    if not isinstance(statement, ast.For) or not isinstance(statement.iter, ast.Call):
        return None
    if all(isinstance(argument, ast.Constant) for argument in statement.iter.args):
        return None
    # More turns than a pipeline has stages by default, so that its loop is still one.
    statement.iter = trees.expression("range(4)")
    return [statement]
