"""Fewer statements: delta debugging, large chunks first, and removal of control flow."""

import ast
import copy
from collections.abc import Iterator, Sequence

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.constant_folding import fold_constants
from flacheck.capabilities.repro.kernel.rewriting import drop_unread_parameters, rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.search import (
    Proposals,
    propose_at_each,
    propose_until_accepted,
)


def statements(best: Specimen) -> Proposals:
    """Propose to remove statements: half of them at a time, then a quarter, at last one."""
    size = max(1, _count(best) // 2)
    while True:
        end = _count(best)
        while end > 0:
            chunk = set(range(max(0, end - size), end))
            body = list(trees.all_statements(best.function.body))
            # Without the chunk alone, then also without the statements that read its variables.
            chunks = (chunk, closure(body, chunk))
            candidates = (_without(best, positions) for positions in chunks)
            best = (yield from propose_until_accepted(candidates)) or best
            end = min(end - size, _count(best))
        if size == 1:
            return
        size = max(1, size // 2)


def _count(specimen: Specimen) -> int:
    return len(list(trees.all_statements(specimen.function.body)))


def _without(specimen: Specimen, positions: set[int]) -> Specimen:
    body = trees.without_statements(specimen.copied_body(), positions)
    return drop_unread_parameters(rewrite(specimen, body))


def closure(body: Sequence[ast.stmt], chunk: set[int]) -> set[int]:
    """Return the chunk with the plain statements that read variables which only it binds."""
    # Loops and branches stay, because parts of them may still be needed.
    plain = set()
    for at, statement in enumerate(body):
        if not isinstance(statement, trees.COMPOUND):
            plain.add(at)
    removals = set(chunk)
    while True:
        unbound: set[str] = set()
        for at in removals:
            unbound |= trees.writes(body[at])
        remaining = plain - removals
        for at in remaining:
            unbound -= trees.writes(body[at])
        readers = {at for at in remaining if trees.reads(body[at]) & unbound}
        if not readers:
            return removals
        removals |= readers


def control_flow(best: Specimen) -> Proposals:
    """Propose for every loop and branch one side, or a loop of few iterations."""
    yield from propose_at_each(best, _compounds, _without_compound)


def _compounds(specimen: Specimen) -> list[ast.stmt]:
    """Return loops and branches, outer before inner."""
    body = trees.all_statements(specimen.function.body)
    return [statement for statement in body if isinstance(statement, trees.COMPOUND)]


def _without_compound(specimen: Specimen, compound: ast.stmt) -> Iterator[Specimen]:
    for new in _simpler(copy.deepcopy(compound)):
        # Constant folding replaces a branch on True by its statements.
        always = ast.If(ast.Constant(True), new, [])
        body = trees.copied(specimen.function.body, {id(compound): always})
        yield drop_unread_parameters(rewrite(specimen, fold_constants(body)))


def _simpler(statement: ast.stmt) -> Iterator[trees.Block]:
    """Yield a loop's body with its variable at 0, a short loop, or either side of a branch."""
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
            # More iterations than the default stages of a pipeline, so that the pipeline stays.
            short.iter = trees.expression("range(4)")
            yield [short]
