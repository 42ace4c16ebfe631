"""What wider operands cost in shared memory: each kernel that they reach, compiled with the dtypes
that it was meant to get and with those that it gets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from flacheck.capabilities.dtypes.finding import DtypeFinding, ReachedKernel
from flacheck.capabilities.dtypes.following import DtypesAnswer
from flacheck.inputs import launches, replay
from flacheck.inputs.expand import Selection, expand
from flacheck.inputs.launches import RecordedLaunch
from flacheck.inputs.matrix import Block, Matrix
from flacheck.model import Cell, Json, Purpose, Record, Verdict
from flacheck.packages.package import Package
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import records_of
from flacheck.store import Store
from flacheck.tables import targets
from flacheck.toolchains.base import Choice

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Need:
    """The shared memory of a launch on a target. `shared` are the bytes of the first configuration
    that fits, else of the one that takes the least; None where none compiles. `why` is the code or
    reason of what does not fit."""

    shared: int | None
    fits: bool
    why: str | None = None


@dataclass(frozen=True)
class LaunchOnTarget:
    """One launch to compile for one target."""

    entry: RecordedLaunch
    target: str


@dataclass
class CostBench:
    """Compiles launches with one release into a store; `package` is where kernels are from."""

    store: Path
    choice: Choice
    package: Package | None = None
    jobs: int = 0
    _records: dict[str, Record] = field(default_factory=dict)

    def measure(self, wanted: Sequence[LaunchOnTarget]) -> list[Need]:
        """What each launch takes. One configuration of each is compiled first, then the others of
        those launches that it does not fit."""
        usual = [self._cells(each, "usual") for each in wanted]
        self._compile(usual)
        own: list[list[Cell]] = []
        for each, cells in zip(wanted, usual):
            tried: list[Cell] = []
            if not any(self._fits(cell) for cell in cells):
                tried = self._cells(each, "own")
            own.append(tried)
        self._compile(own)
        return [self._need([*first, *others]) for first, others in zip(usual, own)]

    def _cells(self, wanted: LaunchOnTarget, configs: str) -> list[Cell]:
        provided: dict[str, Package] = {}
        if self.package is not None:
            provided[self.package.identity] = self.package
        axes = {"target": (wanted.target,), "triton": ("this",), "configs": (configs,)}
        matrix = Matrix("dtypes", "dtypes", (Block(axes),))
        sources = replay.sources([wanted.entry], provided)
        return list(expand(matrix, sources, Selection(), lambda spec: (self.choice.identity,)))

    def _compile(self, groups: Iterable[Iterable[Cell]]) -> None:
        asked = {cell.key: cell for cells in groups for cell in cells}
        missing = [cell for key, cell in asked.items() if key not in self._records]
        if not missing:
            return
        _LOG.info(f"compiling {len(missing)} cells for the shared memory that they take …")
        packages = {}
        if self.package is not None:
            packages[self.package.identity] = self.package
        plan = Plan(
            name="dtypes",
            cells=missing,
            choices={self.choice.identity: self.choice},
            packages=packages,
            purpose=Purpose.DTYPES,
            # What a script launched that the user named.
            trust=True,
        )
        with Store.open(self.store) as store:
            for record in records_of(plan, store, RunOptions(jobs=self.jobs)):
                self._records[record.key] = record

    def _fits(self, cell: Cell) -> bool:
        record = self._records.get(cell.key)
        return record is not None and record.verdict is Verdict.COMPILES

    def _need(self, cells: Iterable[Cell]) -> Need:
        known = [self._records[cell.key] for cell in cells if cell.key in self._records]
        for record in known:
            if record.verdict is Verdict.COMPILES:
                return Need(_shared(record), True)
        measured = [record for record in known if _shared(record) is not None]
        if measured:
            least = min(measured, key=lambda record: _shared(record) or 0)
            return Need(_shared(least), False, least.code)
        why = next((record.code or record.reason for record in known), "no source to compile")
        return Need(None, False, why)


def _shared(record: Record) -> int | None:
    value = record.resources.get("shared")
    if value is None:
        return None
    return int(value)


def combine_needs(needs: Sequence[Need]) -> Need:
    """What several launches of a kernel take: the most, and they fit when each does."""
    for need in needs:
        if need.shared is None:
            return need
    most = max(needs, key=lambda need: (not need.fits, need.shared or 0))
    return replace(most, fits=all(need.fits for need in needs))


def with_dtypes(entry: RecordedLaunch, dtypes: Mapping[str, str]) -> RecordedLaunch:
    """A launch whose operands have other dtypes, given by argument."""
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
    """The launches that were seen, by id."""
    # What launches nothing writes nothing.
    written = [file for file in answer.launches if file.stat().st_size]
    read = [launches.read(file, ours=True) for file in written]
    return {each.id: each for file in read for each in file.launches}


def add_costs(
    findings: Sequence[DtypeFinding],
    entries: Mapping[str, RecordedLaunch],
    bench: CostBench,
    target: str,
) -> list[DtypeFinding]:
    """The findings, each kernel that they reach with the shared memory that it takes with the
    dtypes that it was meant to get and with those that it gets."""
    wanted: list[LaunchOnTarget] = []
    for _, entry, reached in _launched(findings, entries):
        wanted.append(LaunchOnTarget(with_dtypes(entry, reached.intended_dtypes), target))
        wanted.append(LaunchOnTarget(entry, target))
    needs = iter(bench.measure(wanted))
    measured: dict[tuple[int, int], list[tuple[Need, Need]]] = {}
    for place, _, _ in _launched(findings, entries):
        measured.setdefault(place, []).append((next(needs), next(needs)))
    costed = []
    for number, finding in enumerate(findings):
        kernels = []
        for index, reached in enumerate((*finding.reached_kernels, *finding.beyond)):
            pairs = measured.get((number, index), [])
            kernels.append(replace(reached, shared=_cost(pairs, target)))
        middle = len(finding.reached_kernels)
        reaching, beyond = tuple(kernels[:middle]), tuple(kernels[middle:])
        costed.append(replace(finding, reached_kernels=reaching, beyond=beyond))
    return costed


def _launched(
    findings: Sequence[DtypeFinding], entries: Mapping[str, RecordedLaunch]
) -> Iterator[tuple[tuple[int, int], RecordedLaunch, ReachedKernel]]:
    """Every launch that a finding's kernels were seen in, with the place of both."""
    for number, finding in enumerate(findings):
        for index, reached in enumerate((*finding.reached_kernels, *finding.beyond)):
            for launch in reached.launches:
                if launch in entries:
                    yield (number, index), entries[launch], reached


def _cost(pairs: Sequence[tuple[Need, Need]], target: str) -> Json | None:
    if not pairs:
        return None
    intended = combine_needs([first for first, _ in pairs])
    actual = combine_needs([second for _, second in pairs])
    return {
        "target": target,
        "limit": targets.find(target).shared_limit,
        "intended": intended.shared,
        "actual": actual.shared,
    }
