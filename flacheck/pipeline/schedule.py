"""The order of a run's compiles and its remaining work, estimated from stored compile times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from flacheck.model import Cell, Record, Verdict, canonical
from flacheck.model.launch_sizes import head_size

_BACKWARD = re.compile("bwd|backward")
# Seconds of a cell about which nothing is stored. Only ratios count.
_DEFAULT_SECONDS = 1.0


@dataclass(frozen=True)
class StoredCost:
    """The seconds of a stored compile, and True if it failed.

    `package` is `NAME==VERSION` or None, `launch` and `options` are canonical JSON.
    """

    kernel: str
    package: str | None
    target: str
    dtype: str | None
    launch: str
    options: str
    seconds: float
    has_failed: bool

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The names of the groups of similar cells to which this one belongs, nearest first."""
        near = (self.kernel, self.target, str(self.dtype), self.options)
        own_package = (str(self.package), *near)
        return (*own_package, self.launch), own_package, near, (self.kernel,), ()


@dataclass
class Costs:
    """Mean compile times of stored cells, by groups of similar cells.

    The nearest group holds the cell under other releases; then the launch, the package, the options
    and the kernel may differ. The mean is used, since the sum of many would count too much.
    """

    _seconds: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    _failed: set[tuple[str, ...]] = field(default_factory=set)

    @staticmethod
    def of(stored_costs: Iterable[StoredCost]) -> Costs:
        """Return the costs of stored compiles."""
        costs = Costs()
        for each in stored_costs:
            for level in each.levels:
                costs._seconds.setdefault(level, []).append(each.seconds)
            if each.has_failed:
                costs._failed.add(each.levels[0])
        return costs

    def seconds(self, cell: Cell) -> float:
        """Return the expected compile time of a cell."""
        if not self._seconds:
            return _DEFAULT_SECONDS
        for level in cost_of(cell).levels:
            if level in self._seconds:
                return fmean(self._seconds[level])
        return _DEFAULT_SECONDS

    def has_times_of(self, cells: Iterable[Cell]) -> bool:
        """Return True if a compile of some cell's kernel is stored."""
        return any((cell.kernel.name,) in self._seconds for cell in cells)

    def has_failed(self, cell: Cell) -> bool:
        """Return True if the cell failed under another release."""
        return bool(self._failed) and cost_of(cell).levels[0] in self._failed


def most_telling_first(cells: Iterable[Cell], costs: Costs) -> list[Cell]:
    """Return cells in the order in which an answer so far needs them.

    Every kernel comes once, then every kernel again: first the cells that failed elsewhere, then
    those in bf16, at the largest head size first. Among the kernels, failed ones come first, then
    forward ones, then quick ones.
    """
    by_kernel: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        name = (cell.kernel.name, cell.toolchain, cell.target)
        by_kernel.setdefault(name, []).append(cell)
    ranked = []
    for (kernel, _, _), own in by_kernel.items():
        own.sort(
            key=lambda cell: (not costs.has_failed(cell), cell.dtype != "bf16", -_head_size(cell))
        )
        is_backward = _BACKWARD.search(kernel) is not None
        for number, cell in enumerate(own):
            rank = (number, not costs.has_failed(cell), is_backward, costs.seconds(cell))
            ranked.append((rank, cell))
    ranked.sort(key=lambda each: each[0])
    return [cell for _, cell in ranked]


def _head_size(cell: Cell) -> int:
    return (head_size(cell.launch.args) or 0) if cell.launch else 0


def cost_of(cell: Cell, seconds: float = 0.0) -> StoredCost:
    """Return the cost of a cell that took some seconds, as of a stored one."""
    launch = cell.launch.to_json() if cell.launch else None
    return StoredCost(
        kernel=cell.kernel.name,
        package=cell.kernel.package,
        target=cell.target,
        dtype=cell.dtype,
        launch=canonical(launch),
        options=canonical(dict(cell.options)),
        seconds=seconds,
        has_failed=False,
    )


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


def stored_cost(row: Sequence[Any]) -> StoredCost:
    """Return the cost in a row of `Store.recent_costs`."""
    kernel, package, target, dtype, launch, options, seconds, verdict = row
    has_failed = verdict == Verdict.FAILS.value
    plain = (canonical(launch), canonical(options), seconds, has_failed)
    return StoredCost(kernel, package, target, dtype, *plain)
