"""The launches of a job that are measured, each with its cells under every compiler.

A launch needs its memory and its grid, which only a recording has. The largest launch of each
kernel and dtype is measured, a program's own one before one that flacheck made up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flacheck.errors import UsageError
from flacheck.model import Cell, digest
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.pipeline.package_launches import (
    CapturedPackage,
    importable_packages,
    matrix_of,
    select_launches,
    without_places,
)
from flacheck.pipeline.plan import Plan
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs import call_paths, launches, replay
from flacheck.subjects.inputs.configurations import is_config
from flacheck.subjects.inputs.expand import expand
from flacheck.subjects.inputs.launches import RecordedLaunch
from flacheck.subjects.inputs.matrix import Block, Matrix
from flacheck.subjects.inputs.operators import operators_of
from flacheck.subjects.inputs.sources import launches_file
from flacheck.subjects.inputs.subject import line_of
from flacheck.toolchains import Resolver

# The runner holds a launch's memory up to seven times.
_MOST_BYTES = 8 << 30
_WITHOUT_SIZES = (
    "its launches lack the grid or the memory of their tensors: another front end launched it, or "
    "an earlier flacheck recorded it"
)
_WITHOUT_SOURCE = "the file lacks its source; --trust imports the package that the file names"


@dataclass
class MeasuredLaunch:
    """A recorded launch with its cells: each configuration under each compiler.

    `operators` are the public functions and classes through which it was launched.
    """

    recorded: RecordedLaunch
    operators: tuple[str, ...]
    cells: list[tuple[Cell, Mapping[str, Any], tuple[int, ...]]] = field(default_factory=list)

    def add(self, cells: Sequence[Cell]) -> None:
        """Add cells, each with its configuration and the grid of that."""
        for cell in cells:
            for config, grid in launch_configs(self.recorded):
                if grid and is_config(config, _constants(cell), cell.options):
                    self.cells.append((cell, config, grid))
                    break


@dataclass(frozen=True)
class MeasuredLaunches:
    """The launches to measure with the plan of their cells.

    `left_out` names kernels without a launch that can be repeated, each with the reason.
    """

    launches: Sequence[MeasuredLaunch]
    plan: Plan
    left_out: Mapping[str, str]


def measured_launches(job: Job) -> MeasuredLaunches:
    """Return the launches to measure of a job's subject; a package is captured.

    Raises:
        UsageError: If the subject is a matrix that declares launches, which have no memory.
        EmptySelection: If nothing is selected.
    """
    if job.subject.package is not None:
        resolved = planning.resolve(job)
        with planning.capture(resolved) as captured:
            assert isinstance(captured, CapturedPackage)
            return _of_package(job, captured)
    file, _ = line_of(str(job.subject.matrix))
    if file.suffix not in launches_file.SUFFIXES:
        raise UsageError(
            f"{job.subject.name} declares launches without the memory of their tensors: measure a "
            "launches file that `flacheck capture` recorded, or a package with --package"
        )
    return _of_file(job)


def _of_file(job: Job) -> MeasuredLaunches:
    subject, selection = job.subject, job.selection
    file, line = line_of(str(subject.matrix))
    read = launches.read(file, trust=subject.trust)
    entries = launches_file.entries_of(read, file, line, subject.trust)
    selected = call_paths.select_checked(entries, selection, str(file))
    accepted, refusals = launches.without_refused(selected)
    here = [entry for entry in accepted if entry.text is not None or subject.trust]
    packages = replay.provide_packages(file, here, subject.trust)
    axes = {"target": launches_file.recorded_targets(read)}
    matrix = Matrix(file.stem, str(file), (Block(axes),)).with_configs(subject.configs or "usual")
    chosen, left_out = choose_largest(_with_dtypes(here, selection.dtypes))
    for entry in accepted:
        if entry.text is None and not subject.trust:
            left_out[entry.kernel] = _WITHOUT_SOURCE
    resolver = Resolver()
    without_kernels = replace(selection, kernels=(), ops=(), dtypes=())
    measured = []
    for entry in chosen:
        launch = MeasuredLaunch(entry, _operators(entry, packages.get(entry.package or "")))
        sources = replay.sources([entry], packages)
        launch.add(list(expand(matrix, sources, without_kernels, resolver, job.until)))
        measured.append(launch)
    cells = [cell for launch in measured for cell, _, _ in launch.cells]
    plan = Plan(
        name=file.stem,
        cells=cells,
        choices=resolver.choices,
        packages=packages,
        warnings=(*refusals, *dict.fromkeys(resolver.warnings)),
        purpose=job.purpose,
        trust=subject.trust,
    )
    return MeasuredLaunches(measured, plan, left_out)


def _of_package(job: Job, captured: CapturedPackage) -> MeasuredLaunches:
    """Return the launches that all compilers' captures have, else each capture's own."""
    package = captured.resolved.package
    recordings = []
    for capture in captured.captures:
        entries = select_launches(capture, job.selection)
        recordings.append(_with_dtypes(entries, job.selection.dtypes))
    measured: dict[str, MeasuredLaunch] = {}
    left_out: dict[str, str] = {}
    for capture, entries in zip(captured.captures, launches.common(recordings)):
        if capture.driven is None:
            continue
        matrix = matrix_of(capture, "compile").with_configs(job.subject.configs or "usual")
        selection = replace(without_places(job.selection), dtypes=())
        chosen, reasons = choose_largest(entries)
        left_out |= reasons
        for entry in chosen:
            identity = digest([entry.kernel, entry.launch.to_json(), entry.options])
            launch = MeasuredLaunch(entry, _operators(entry, package))
            launch = measured.setdefault(identity, launch)
            sources = replay.sources([entry], importable_packages(capture), or_cut=True)
            launch.add(list(expand(matrix, sources, selection, lambda spec: (spec,), job.until)))
    cells = [cell for launch in measured.values() for cell, _, _ in launch.cells]
    sizes = ", ".join(f"{symbol}={size}" for symbol, size in job.subject.shape)
    plan = Plan(
        name=f"{package.identity} at {sizes}" if sizes else package.identity,
        cells=cells,
        choices=captured.resolved.choices,
        packages={package.identity: package},
        warnings=captured.resolved.warnings,
        purpose=job.purpose,
        trust=True,
    )
    return MeasuredLaunches(list(measured.values()), plan, left_out)


def _with_dtypes(entries: Sequence[RecordedLaunch], dtypes: Sequence[str]) -> list[RecordedLaunch]:
    return [entry for entry in entries if not dtypes or entry.launch.dtype in dtypes]


def choose_largest(
    entries: Sequence[RecordedLaunch],
) -> tuple[list[RecordedLaunch], dict[str, str]]:
    """Return one launch of each kernel and dtype, and the kernels without one.

    The launch has the largest grid, then the largest memory, among a program's own launches if
    there are any.
    """
    largest: dict[tuple[str, str | None], RecordedLaunch] = {}
    for entry in entries:
        if not _can_be_repeated(entry):
            continue
        key = (entry.kernel, entry.launch.dtype)
        if key not in largest or _rank(entry) > _rank(largest[key]):
            largest[key] = entry
    repeated = {entry.kernel for entry in largest.values()}
    others = {entry.kernel for entry in entries} - repeated
    return list(largest.values()), dict.fromkeys(sorted(others), _WITHOUT_SIZES)


def _can_be_repeated(entry: RecordedLaunch) -> bool:
    if entry.memory is None or sum(entry.memory.storages) > _MOST_BYTES:
        return False
    return any(grid for _, grid in launch_configs(entry))


def has_inferred_tensors(entry: RecordedLaunch) -> bool:
    """Return True if flacheck called a function whose tensors no caller in the package shapes."""
    return entry.call in ("inner function", "failed call", "alone")


def _rank(entry: RecordedLaunch) -> tuple[bool, int, int]:
    assert entry.memory is not None
    grids = [math.prod(grid) for _, grid in launch_configs(entry) if grid]
    is_own = not (entry.made_up or has_inferred_tensors(entry))
    return is_own, max(grids), sum(entry.memory.storages)


def launch_configs(
    entry: RecordedLaunch,
) -> Iterator[tuple[Mapping[str, Any], tuple[int, ...] | None]]:
    """Yield each configuration with its grid; a grid without blocks launches nothing."""
    configs = entry.without_decorators().configs
    grids: Sequence[tuple[int, ...] | None] = entry.grids or [entry.grid] * len(configs)
    for config, grid in zip(configs, grids):
        yield config, grid if grid and math.prod(grid) else None


def _constants(cell: Cell) -> dict[str, Any]:
    assert cell.launch is not None
    constants = {}
    for name, spec in cell.launch.args.items():
        if isinstance(spec, Mapping) and "constexpr" in spec:
            constants[name] = spec["constexpr"]
    return constants


def _operators(entry: RecordedLaunch, package: Package | None) -> tuple[str, ...]:
    """Return the entry points of a launch; without the package the first functions of its paths."""
    if package is not None:
        for names in operators_of([entry], Path(package.path)).values():
            return tuple(names)
    return tuple(dict.fromkeys(path[0] for path in entry.paths or () if path))
