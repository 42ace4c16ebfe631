"""Shared memory that wider operands cost.

Each kernel that wider operands reach is compiled with the intended dtypes and with the actual ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs
from packaging.version import Version

from flacheck import toolchains
from flacheck.capabilities.dtypes.finding import DtypeFinding, ReachedKernel, SharedCost
from flacheck.capabilities.dtypes.following import DtypesAnswer
from flacheck.model import Cell, Purpose, Record, Verdict
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import records_of
from flacheck.source.packages.package import Package
from flacheck.store import Store
from flacheck.subjects.inputs import launches, replay
from flacheck.subjects.inputs.expand import Selection, expand
from flacheck.subjects.inputs.launches import RecordedLaunch
from flacheck.subjects.inputs.matrix import Block, Matrix
from flacheck.tables import targets
from flacheck.toolchains.base import Choice

_LOG = logging.getLogger(__name__)

_REMOVED_API = "FC101"
# The number of kernels that show if a release is too new for a package.
_SAMPLE = 4


@dataclass(frozen=True)
class Need:
    """The shared memory of a launch on a target.

    `shared` is in bytes: that of the first configuration that fits, else of the configuration that
    takes the least; None if no configuration compiles. `why` is the code or the reason of a launch
    that does not fit, `message` its decisive line.
    """

    shared: int | None
    fits: bool
    why: str | None = None
    message: str = ""


@dataclass(frozen=True)
class LaunchOnTarget:
    """One launch to compile for one target."""

    entry: RecordedLaunch
    target: str


@dataclass
class CostBench:
    """Compiler of launches with one release; the records go to `store`.

    Kernels come from `package`, if there is one. With `may_change_release`, an older release
    compiles launches that use what the release has removed.
    """

    store: Path
    choice: Choice
    package: Package | None = None
    jobs: int = 0
    may_change_release: bool = False
    _records: dict[str, Record] = field(default_factory=dict)

    def choose_release(self, entries: Iterable[RecordedLaunch], target: str) -> None:
        """Change to the newest older release that has the API which these launches use.

        A package's kernels may use an API that the newest release has removed.
        """
        by_kernel: dict[str, LaunchOnTarget] = {}
        for entry in entries:
            by_kernel.setdefault(entry.kernel, LaunchOnTarget(entry, target))
        sample = list(by_kernel.values())[:_SAMPLE]
        if not self.may_change_release or not self._uses_removed(sample):
            return
        newest_first = toolchains.FAMILIES["triton"].versions().choices[::-1]
        first = self.choice
        for choice in newest_first:
            if Version(choice.version) >= Version(first.version) or choice.skip_reason(target):
                continue
            self.choice = choice
            if not self._uses_removed(sample):
                _LOG.info(f"launches compile under {choice.identity}: {first.identity} is too new")
                return
        self.choice = first

    def _uses_removed(self, sample: Sequence[LaunchOnTarget]) -> bool:
        return any(need.why == _REMOVED_API for need in self.compile_one(sample))

    def measure(self, queries: Sequence[LaunchOnTarget]) -> list[Need]:
        """Return the needs of each launch.

        One configuration of each launch is compiled first; the others follow only if the first does
        not fit the GPU.
        """
        first_cells = [self._cells(each, "usual") for each in queries]
        self._compile(first_cells)
        other_cells: list[list[Cell]] = []
        for each, cells in zip(queries, first_cells):
            alternatives: list[Cell] = []
            if not any(map(self._fits, cells)):
                alternatives = self._cells(each, "own")
            other_cells.append(alternatives)
        self._compile(other_cells)
        needs = []
        for first, others in zip(first_cells, other_cells):
            needs.append(self._need([*first, *others]))
        return needs

    def compile_one(self, queries: Sequence[LaunchOnTarget]) -> list[Need]:
        """Return the needs of each launch in one of its configurations."""
        groups = [self._cells(each, "usual") for each in queries]
        self._compile(groups)
        return [self._need(cells) for cells in groups]

    def _packages(self) -> dict[str, Package]:
        if self.package is None:
            return {}
        return {self.package.identity: self.package}

    def _cells(self, query: LaunchOnTarget, configs: str) -> list[Cell]:
        axes = {"target": (query.target,), "triton": ("this",), "configs": (configs,)}
        matrix = Matrix("dtypes", "dtypes", (Block(axes),))
        sources = replay.sources([query.entry], self._packages())
        return list(expand(matrix, sources, Selection(), lambda spec: (self.choice.identity,)))

    def _compile(self, groups: Iterable[Iterable[Cell]]) -> None:
        missing: dict[str, Cell] = {}
        for cells in groups:
            for cell in cells:
                if cell.key not in self._records:
                    missing[cell.key] = cell
        if not missing:
            return
        _LOG.info(f"compiling {len(missing)} cells with the dtypes of their launches …")
        plan = Plan(
            name="dtypes",
            cells=list(missing.values()),
            choices={self.choice.identity: self.choice},
            packages=self._packages(),
            purpose=Purpose.DTYPES,
            # The user named the module or package that launched these kernels.
            trust=True,
        )
        with Store.open(self.store) as store:
            for record in records_of(plan, store, RunOptions(jobs=self.jobs)):
                self._records[record.key] = record

    def _fits(self, cell: Cell) -> bool:
        record = self._records.get(cell.key)
        return record is not None and record.verdict is Verdict.COMPILES

    def _need(self, cells: Iterable[Cell]) -> Need:
        why: str | None = "no source to compile"
        records = [self._records[cell.key] for cell in cells if cell.key in self._records]
        measurements = []
        for record in records:
            if record.verdict is Verdict.COMPILES:
                return Need(_shared(record), True)
            if _shared(record) is not None:
                measurements.append(record)
        if measurements:
            least = min(measurements, key=lambda record: _shared(record) or 0)
            return Need(_shared(least), False, least.code)
        message = ""
        if records:
            why = records[0].code or records[0].reason
            message = records[0].message.partition("\n")[0]
        return Need(None, False, why, message)


def _shared(record: Record) -> int | None:
    value = record.resources.get("shared")
    if value is None:
        return None
    return int(value)


def combine_needs(needs: Sequence[Need]) -> Need:
    """Return the largest need of several launches of a kernel; they fit if each of them fits."""
    for need in needs:
        if need.shared is None:
            return need
    most = max(needs, key=lambda need: (not need.fits, need.shared or 0))
    return replace(most, fits=all(need.fits for need in needs))


def with_dtypes(entry: RecordedLaunch, dtypes: Mapping[str, str]) -> RecordedLaunch:
    """Return the launch with other dtypes for some of its arguments."""
    args = dict(entry.launch.args)
    for name, dtype in dtypes.items():
        if name in args:
            args[name] = _with_dtype(args[name], dtype)
    launch = replace(entry.launch, args=args)
    return structs.replace(entry, launch=launch)


def _with_dtype(argument: Any, dtype: str) -> Any:
    if isinstance(argument, Mapping) and "dtype" in argument:
        return {**argument, "dtype": dtype}
    if isinstance(argument, Mapping) and "descriptor" in argument:
        return {"descriptor": {**argument["descriptor"], "dtype": dtype}}
    return argument


def read_launches(answer: DtypesAnswer) -> dict[str, RecordedLaunch]:
    """Return the recorded launches of a run, by id."""
    entries = {}
    for file in answer.launches:
        # A run without a launch leaves its file empty.
        if file.stat().st_size:
            for entry in launches.read(file, ours=True).launches:
                entries[entry.id] = entry
    return entries


def add_costs(
    findings: Sequence[DtypeFinding],
    entries: Mapping[str, RecordedLaunch],
    bench: CostBench,
    target: str,
) -> list[DtypeFinding]:
    """Return the findings with the shared memory of each kernel that they reach.

    Each kernel is compiled with its intended and with its actual dtypes.
    """
    queries: list[LaunchOnTarget] = []
    for _, entry, effect in _list_launches(findings, entries):
        queries.append(LaunchOnTarget(with_dtypes(entry, effect.intended_dtypes), target))
        queries.append(LaunchOnTarget(entry, target))
    needs = iter(bench.measure(queries))
    measurements: dict[tuple[int, int], list[tuple[Need, Need]]] = {}
    for place, _, _ in _list_launches(findings, entries):
        measurements.setdefault(place, []).append((next(needs), next(needs)))
    findings_with_costs = []
    for number, finding in enumerate(findings):
        kernels = []
        for index, effect in enumerate((*finding.reached_kernels, *finding.beyond)):
            pairs = measurements.get((number, index), [])
            kernels.append(replace(effect, shared=_cost(pairs, target, bench.choice.identity)))
        middle = len(finding.reached_kernels)
        reaching, beyond = tuple(kernels[:middle]), tuple(kernels[middle:])
        findings_with_costs.append(replace(finding, reached_kernels=reaching, beyond=beyond))
    return findings_with_costs


def _list_launches(
    findings: Sequence[DtypeFinding], entries: Mapping[str, RecordedLaunch]
) -> Iterator[tuple[tuple[int, int], RecordedLaunch, ReachedKernel]]:
    """Yield each launch of a finding's kernels with the indices of finding and kernel."""
    for number, finding in enumerate(findings):
        for index, effect in enumerate((*finding.reached_kernels, *finding.beyond)):
            for launch in effect.launches:
                if launch in entries:
                    yield (number, index), entries[launch], effect


def _cost(pairs: Sequence[tuple[Need, Need]], target: str, toolchain: str) -> SharedCost | None:
    if not pairs:
        return None
    intended_need, actual_need = map(combine_needs, zip(*pairs))
    limit = targets.find(target).shared_limit
    needs = (intended_need.shared, actual_need.shared)
    return SharedCost(target, limit, *needs, toolchain)
