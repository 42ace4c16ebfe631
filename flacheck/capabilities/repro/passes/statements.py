"""Fewer statements: delta debugging, big parts first, and control flow taken away."""

import ast
import copy
from collections.abc import Generator, Iterator, Sequence

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.constant_folding import fold_constants
from flacheck.capabilities.repro.kernel.rewriting import drop_unread_parameters, rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.search import at_each, first_taken


def statements(best: Specimen) -> Generator[Specimen, bool, None]:
    """Statements, half of them at a time, then a quarter, at last one by one."""
    size = max(1, _count(best) // 2)
    while True:
        end = _count(best)
        while end > 0:
            chunk = set(range(max(0, end - size), end))
            body = list(trees.all_statements(best.function.body))
            # A variable that is bound again elsewhere may be left, so the readers stay at first.
            shorter = (_without(best, doomed) for doomed in (chunk, closure(body, chunk)))
            best = (yield from first_taken(shorter)) or best
            end = min(end - size, _count(best))
        if size == 1:
            return
        size = max(1, size // 2)


def _count(specimen: Specimen) -> int:
    return len(list(trees.all_statements(specimen.function.body)))


def _without(specimen: Specimen, doomed: set[int]) -> Specimen:
    return drop_unread_parameters(
        rewrite(specimen, trees.without_statements(specimen.copied_body(), doomed))
    )


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
    body = trees.all_statements(specimen.function.body)
    return [statement for statement in body if isinstance(statement, trees.COMPOUND)]


def _simplified(specimen: Specimen, compound: ast.stmt) -> Iterator[Specimen]:
    for new in _simpler(copy.deepcopy(compound)):
        # Folding puts the statements of a branch that is always taken in its place.
        always = ast.If(ast.Constant(True), new, [])
        body = copy.deepcopy(specimen.function.body, {id(compound): always})
        yield drop_unread_parameters(rewrite(specimen, fold_constants(body)))


def _simpler(statement: ast.stmt) -> Iterator[trees.Block]:
    """A loop's body with its variable at 0, or a loop of few turns; either side of a branch."""
    if isinstance(statement, (ast.If, ast.While)):
        yield statement.body
        if isinstance(statement, ast.If) and statement.orelse:
            yield statement.orelse
    if isinstance(statement, ast.For):
        short = copy.deepcopy(statement)
        zeros = dict.fromkeys(trees.writes(statement.target), trees.expression("0"))
        yield trees.substitute(statement.body, zeros)
        arguments = getattr(short.iter, "args", ())
        if not all(isinstance(argument, ast.Constant) for argument in arguments):
            # More turns than a pipeline has stages by default, so that its loop is still one.
            short.iter = trees.expression("range(4)")
            yield [short]
