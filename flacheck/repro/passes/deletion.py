"""Delta debugging over statements: big parts first; what depends on a deleted value goes with it."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar

from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import COMPOUND, kept, reads, statements, writes
from flacheck.repro.passes.expressions import trimmed

Item = TypeVar("Item")


class Deletion:
    """Statements, half of them at a time, then a quarter, at last one by one."""

    name = "statements"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        size = max(1, _count(best) // 2)
        while True:
            end = _count(best)
            while end > 0:
                for candidate in _shorter(best, max(0, end - size), end):
                    if (yield candidate):
                        best = candidate
                        break
                end = min(end - size, _count(best))
            if size == 1:
                return
            size = max(1, size // 2)


def _count(specimen: Specimen) -> int:
    return sum(1 for _ in statements(specimen.function.body))


def _shorter(specimen: Specimen, start: int, end: int) -> Iterator[Specimen]:
    """Without the statements from `start` to `end`: those alone, then with all that needs them."""
    body = list(statements(specimen.function.body))
    chunk = set(range(start, end))
    for doomed in (chunk, closure(body, chunk)):
        with edited(specimen) as kernel:
            ours = {id(s) for at, s in enumerate(statements(kernel.body)) if at in doomed}
            kernel.body = kept(kernel.body, lambda s, ours=ours: id(s) not in ours)  # type: ignore[misc]
        yield trimmed(kernel.specimen)


def closure(body: Sequence[ast.stmt], chunk: set[int]) -> set[int]:
    """The chunk with every plain statement that reads what only it gave."""
    doomed = set(chunk)
    while True:
        lost = set().union(*(writes(body[at]) for at in doomed))
        left = {
            n
            for at, s in enumerate(body)
            if at not in doomed and not isinstance(s, COMPOUND)
            for n in writes(s)
        }
        more = {
            at
            for at, s in enumerate(body)
            if at not in doomed and not isinstance(s, COMPOUND) and reads(s) & (lost - left)
        }
        if not more:
            return doomed
        doomed |= more
