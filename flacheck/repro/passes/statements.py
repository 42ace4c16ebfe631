"""Delta debugging over statements: big parts first, with what depends on a deleted value."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator, Sequence

from flacheck.repro.kernel.rewriting import rewritten, trimmed
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax_trees import (
    COMPOUND,
    all_statements,
    kept,
    reads,
    writes,
)
from flacheck.repro.passes.search import first_taken


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
    return len(list(all_statements(specimen.function.body)))


def _shorter(specimen: Specimen, start: int, end: int) -> Iterator[Specimen]:
    """Without the statements from `start` to `end`: those alone, then with all that needs them."""
    chunk = set(range(start, end))
    yield _without(specimen, chunk)
    yield _without(specimen, closure(list(all_statements(specimen.function.body)), chunk))


def _without(specimen: Specimen, doomed: set[int]) -> Specimen:
    body = specimen.copied_body()
    lost = [s for at, s in enumerate(all_statements(body)) if at in doomed]
    return trimmed(rewritten(specimen, kept(body, lambda statement: statement not in lost)))


def closure(body: Sequence[ast.stmt], chunk: set[int]) -> set[int]:
    """The chunk with every plain statement that reads what only it gave."""
    plain = {at: s for at, s in enumerate(body) if not isinstance(s, COMPOUND)}
    doomed = set(chunk)
    while True:
        lost = set().union(*(writes(body[at]) for at in doomed))
        left = {at: statement for at, statement in plain.items() if at not in doomed}
        lost -= set().union(*map(writes, left.values()))
        more = {at for at, statement in left.items() if reads(statement) & lost}
        if not more:
            return doomed
        doomed |= more
