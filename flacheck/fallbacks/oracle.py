"""Whether a cell compiles: answered by the engine's own loop, and kept in the scan's store.

Candidates are no part of what a scan was asked. The run that compiles them has a purpose of its
own, so that they count neither in known-good lists nor for the gate, and answer the next search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from flacheck.engine.loop import Loop, Sink
from flacheck.engine.plan import Plan
from flacheck.engine.session import Say, Session
from flacheck.model import Cell, Purpose, Record
from flacheck.store import Store

# What takes longer to compile is hardly what anybody falls back to.
CANDIDATE_SECONDS = 60.0


# Says what came of each cell, by key; the same cell is never compiled twice.
Oracle = Callable[[Sequence[Cell]], Mapping[str, Record]]


class LoopOracle:
    """Cells compiled by the loop in one executor's warm workers, batch after batch."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._known: dict[str, Record] = {}

    def __call__(self, cells: Sequence[Cell]) -> Mapping[str, Record]:
        new = list({cell.key: cell for cell in cells if cell.key not in self._known}.values())
        if new:
            for record in self._loop.records(new):
                self._known[record.key] = record
        return {cell.key: self._known[cell.key] for cell in cells}


@dataclass(frozen=True)
class TriedBefore:
    """A sink that also knows records which no scan made, by key."""

    sink: Sink
    records: Mapping[str, Record]

    def done(self, keys: Iterable[str]) -> Mapping[str, Record]:
        asked = list(keys)
        known = {key: self.records[key] for key in asked if key in self.records}
        return {**self.sink.done(asked), **known}

    def add_many(self, run: str, records: Iterable[Record]) -> None:
        self.sink.add_many(run, records)

    def add_cached(self, run: str, records: Iterable[Record]) -> int:
        return self.sink.add_cached(run, records)


@contextmanager
def searching(
    plan: Plan,
    store: Store,
    jobs: int,
    memory_mb: int,
    timeout: float | None,
    say: Say,
    tried: Mapping[str, Record] | None = None,
) -> Iterator[tuple[Oracle, Session]]:
    """An oracle over warm workers, which end with the context, and the run that it compiles for.
    `tried` are records that are known beside the store's.
    """
    aside = replace(plan, cells=(), purpose=Purpose.FALLBACKS)
    session = Session(aside, store, timeout or CANDIDATE_SECONDS, jobs, memory_mb)
    with session.workers(say) as loop:
        if tried:
            loop.sink = TriedBefore(loop.sink, tried)
        yield LoopOracle(loop), session
