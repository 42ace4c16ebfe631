"""Compiles that may be slow (FC921): each is compiled a second time before it is called slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from flacheck.evidence.analysis.observation import observe
from flacheck.evidence.analysis.slow import SECONDS, slow_compiles
from flacheck.model import Cell, Record, Verdict


class _Sink(Protocol):
    def latest_records(self, keys: Iterable[str]) -> Mapping[str, Record]: ...


class SlowCandidates:
    """The long compiles of a run, held back until the other releases have compiled the same cells.

    Nothing is held back in a run of one release, because a compile is slow only beside others.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self._has_releases = len({cell.toolchain for cell in cells}) > 1
        self.held_records: dict[str, Record] = {}

    def hold(self, record: Record) -> bool:
        """Hold a record back if it may be slow; return True if it is held."""
        is_long = record.verdict is Verdict.COMPILES and record.compile_seconds >= SECONDS
        if is_long and self._has_releases:
            self.held_records[record.key] = record
        return record.key in self.held_records

    def slow_keys(self, sink: _Sink) -> set[str]:
        """Return the keys of the held records that are slow beside the other releases' records."""
        kernels = set()
        for record in self.held_records.values():
            kernels.add((record.package, record.kernel, record.target))
        keys = []
        for cell in self._cells:
            place = (cell.kernel.package, cell.kernel.name, cell.target)
            if place in kernels and cell.key not in self.held_records:
                keys.append(cell.key)
        others = sink.latest_records(keys)
        cells = observe([*self.held_records.values(), *others.values()])
        return set(slow_compiles(cells)).intersection(self.held_records)


def quicker(first: Record, second: Record) -> Record:
    """Return the quicker of two compiles of a cell; the first if the second did not finish."""
    if second.verdict is not Verdict.COMPILES:
        return first
    return min(first, second, key=lambda record: record.compile_seconds)
