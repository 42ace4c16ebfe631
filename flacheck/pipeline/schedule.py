"""The order of a run's compiles and its remaining work, estimated from stored compile times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from flacheck.model import Cell, Record, Verdict, canonical

# Seconds of a cell about which nothing is stored. Only ratios count.
_DEFAULT_SECONDS = 1.0


@dataclass(frozen=True)
class StoredCost:
    """The seconds of a stored compile, and True if it failed.

    `options` is canonical JSON.
    """

    kernel: str
    target: str
    dtype: str | None
    options: str
    seconds: float
    has_failed: bool


@dataclass
class Costs:
    """Mean compile times of stored cells: of the nearest ones, of a kernel, of all.

    Cells are near if only their launch or release differs. A mean, since the sum of many counts.
    """

    _near: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    _by_kernel: dict[str, list[float]] = field(default_factory=dict)
    _all: list[float] = field(default_factory=list)
    _failed: set[tuple[str, ...]] = field(default_factory=set)

    @staticmethod
    def of(stored_costs: Iterable[StoredCost]) -> Costs:
        """Return the costs of stored compiles."""
        costs = Costs()
        for each in stored_costs:
            near = (each.kernel, each.target, str(each.dtype), each.options)
            costs._near.setdefault(near, []).append(each.seconds)
            costs._by_kernel.setdefault(each.kernel, []).append(each.seconds)
            costs._all.append(each.seconds)
            if each.has_failed:
                costs._failed.add(near)
        return costs

    def seconds(self, cell: Cell) -> float:
        """Return the expected compile time of a cell."""
        for known in (
            self._near.get(_near_of(cell)),
            self._by_kernel.get(cell.kernel.name),
            self._all,
        ):
            if known:
                return fmean(known)
        return _DEFAULT_SECONDS

    def has_failed(self, cell: Cell) -> bool:
        """Return True if a near cell failed."""
        return _near_of(cell) in self._failed

    def ordered(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return cells in the order of their compiles: failures first, then the longest.

        A long compile that starts last runs alone while the other workers idle. Without stored
        times the order remains.
        """

        def rank(cell: Cell) -> tuple[bool, float]:
            return not self.has_failed(cell), -self.seconds(cell)

        return sorted(cells, key=rank)


def _near_of(cell: Cell) -> tuple[str, ...]:
    return cell.kernel.name, cell.target, str(cell.dtype), canonical(dict(cell.options))


@dataclass
class RemainingWork:
    """The expected seconds of the cells that a run still compiles."""

    _seconds: dict[str, float]
    _total: float = 0.0
    _done: float = 0.0

    @staticmethod
    def of(cells: Iterable[Cell], costs: Costs) -> RemainingWork:
        """Return the work of cells without a stored result."""
        seconds = {cell.key: costs.seconds(cell) for cell in cells}
        return RemainingWork(seconds, sum(seconds.values()))

    def settle(self, record: Record) -> float | None:
        """Count a settled record; return the share of the work done, None without any work."""
        self._done += self._seconds.pop(record.key, 0.0)
        if not self._total:
            return None
        return self._done / self._total


def stored_cost(plain: tuple[str, str, str | None, dict[str, object], float, str]) -> StoredCost:
    """Return the cost in a row of `Store.recent_costs`."""
    kernel, target, dtype, options, seconds, verdict = plain
    has_failed = verdict == Verdict.FAILS.value
    return StoredCost(kernel, target, dtype, canonical(options), seconds, has_failed)
