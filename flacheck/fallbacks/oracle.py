"""Whether a cell compiles: answered by the engine's own loop, and kept in a store beside the
scan's.

Candidates are no part of what a scan was asked: in its own store they would count as its cells, in
known-good lists and for the gate. So they have a store of their own, in a folder within the scan's,
which answers the next search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from flacheck.engine import loop as scan
from flacheck.engine.executors import Executor
from flacheck.engine.loop import Question, Sink
from flacheck.inputs.planning import Plan
from flacheck.model import Cell, Record
from flacheck.toolchains.base import Progress, silent

FOLDER = "fallbacks"


class Oracle(Protocol):
    """Says what came of each cell, by key; the same cell is never compiled twice."""

    def __call__(self, cells: Sequence[Cell]) -> Mapping[str, Record]: ...


class Known(Protocol):
    """Records that were made before, by key."""

    def done(self, keys: Iterable[str]) -> Mapping[str, Record]: ...


@dataclass(frozen=True)
class Beside:
    """The search's store beside the scan's: what either has done is done, what is new goes to the
    search's.
    """

    own: Sink
    scanned: Known

    def done(self, keys: Iterable[str]) -> Mapping[str, Record]:
        wanted = list(keys)
        return {**self.own.done(wanted), **self.scanned.done(wanted)}

    def add_many(self, run: str, records: Iterable[Record]) -> None:
        self.own.add_many(run, records)

    def add_cached(self, run: str, cells: Iterable[Record]) -> int:
        return self.own.add_cached(run, cells)


class ScanOracle:
    """Cells compiled by `scan.scan` in one executor's warm workers, batch after batch."""

    def __init__(
        self,
        plan: Plan,
        run: str,
        sink: Sink,
        executor: Executor,
        timeouts: scan.Timeouts,
        memory_mb: int = 8192,
        progress: Progress = silent,
    ) -> None:
        self._question: Question = plan.question(memory_mb, False, timeouts.fixed, progress)
        self._run, self._sink, self._executor, self._timeouts = run, sink, executor, timeouts
        self._known: dict[str, Record] = {}

    def __call__(self, cells: Sequence[Cell]) -> Mapping[str, Record]:
        new = list({cell.key: cell for cell in cells if cell.key not in self._known}.values())
        if new:
            question = replace(self._question, cells=new)
            for record in scan.scan(
                question, self._run, self._sink, self._executor, self._timeouts
            ):
                self._known[record.key] = record
        return {cell.key: self._known[cell.key] for cell in cells}
