"""A package through the pipeline: resolved, captured under each compiler, expanded to cells.

A package may branch on the Triton release and on the card, so each toolchain and target has a
capture of its own. Captures are kept in the cache: the same package, compiler and card launch the
same kernels.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from flacheck import rules
from flacheck.engine.package_builds import provide_package
from flacheck.errors import EmptySelection, ToolchainError, did_you_mean
from flacheck.model import (
    Attempt,
    Cell,
    Imported,
    Json,
    Kernel,
    LaunchExtent,
    Outcome,
    Question,
    RequestedCells,
)
from flacheck.model.coverage import PackageCoverage
from flacheck.pipeline.job import Job, count_processors
from flacheck.pipeline.plan import Plan
from flacheck.source.modules import launchable
from flacheck.source.packages import checkouts
from flacheck.source.packages.package import Package
from flacheck.subjects.captures.capture_archive import Captures
from flacheck.subjects.captures.capture_job import (
    CaptureJob,
    CaptureResult,
    capture_package,
    is_captured,
    prepare_captures,
    recipe_of,
)
from flacheck.subjects.captures.cards import card
from flacheck.subjects.captures.coverage import coverage
from flacheck.subjects.inputs import call_paths, launches, replay
from flacheck.subjects.inputs.chosen_cells import ChosenCells, RecordedKernels, choose_cells
from flacheck.subjects.inputs.expand import (
    Selection,
    Source,
    expand,
    last_part,
    list_configurations,
    matches_kernel,
)
from flacheck.subjects.inputs.extents import Place, extents, of_cells
from flacheck.subjects.inputs.launches import RecordedLaunch
from flacheck.subjects.inputs.matrix import Block, Matrix
from flacheck.subjects.inputs.operators import launch_key, operators_of
from flacheck.tables import targets
from flacheck.toolchains import DEFAULT_SPEC, Resolver, provide
from flacheck.toolchains.base import Choice, Toolchain

_LOG = logging.getLogger(__name__)

# The GPU that most of these packages are written for.
DEFAULT_TARGETS = ("sm90",)
# From this release on an autotuner looks its keys up by name, and no key can be at fault.
KEYS_BY_NAME = Version("3.2.0")
# Kernels that a message about an idle glob names.
_MOST_NAMED = 6
# Captures at a time: each holds a gigabyte or more.
_MOST_DRIVES = 4
# How packages name the module of one way of computing an operator.
FORMS = ("fused_recurrent", "fused_chunk", "chunk", "parallel")
# An import of something that this Triton release lacks.
_LACKS = re.compile(
    r"No module named '?triton\.|cannot import name '\w+' from "
    r"(?:partially initialized module )?'?triton\b"
)
# The number in Python's text of an error of the system.
_ERROR_NUMBER = re.compile(r"\[Errno (\d+)\] ")
_REFUSAL = re.compile(r"\bTriton\b[^\n]*\d+\.\d+")


@dataclass(frozen=True)
class CapturePlace:
    """A compiler and a target, with the card that the package is captured on for it."""

    choice: Choice
    target: str
    card: Json

    @property
    def compiles(self) -> bool:
        """Return False for a release that cannot be had or does not know the target."""
        return not self.choice.reason and self.choice.skip_reason(self.target) is None


@dataclass(frozen=True)
class PackageCapture:
    """The launches of a package under one compiler for one target.

    `driven` is None if no compiler for the capture is available.
    """

    package: Package
    choice: Choice
    target: str
    driven: CaptureResult | None


@dataclass(frozen=True)
class ResolvedPackage:
    """A package with the compilers and targets of a job, before any of its code runs."""

    job: Job
    package: Package
    places: Sequence[CapturePlace]
    choices: Mapping[str, Choice]
    warnings: tuple[str, ...]

    @property
    def question(self) -> Question:
        """The question of the job's scan; its cells are unknown before the capture."""
        cells = [RequestedCells(place.choice.identity, place.target) for place in self.places]
        source = checkouts.question_source(str(self.job.subject.package))
        return Question(self.package.identity, asked=tuple(cells), source=source)

    def capture(self, archive: Captures | None = None) -> CapturedPackage:
        """Run the package under each compiler, or read its captures from an archive."""
        suite = None
        if self.job.subject.with_tests:
            suite = checkouts.folder(str(self.job.subject.package))
        self._warn_of_other_cards()
        shape = self.job.subject.shape
        ops: tuple[str, ...] = ()
        kernels: tuple[str, ...] = ()
        if suite is None and archive is None:
            # An archive is shared by jobs with other selections.
            ops, kernels = self.job.selection.ops, self.job.selection.kernels

        has_file = archive is not None and archive.file is not None
        jobs: list[CaptureJob | None] = []
        for place in self.places:
            named = place.choice.by_name()
            job = CaptureJob(self.package, named, place.card, suite, ops, kernels, shape)
            jobs.append(_with_compiler(job, place, has_file))
        drives = [each for each in jobs if each is not None]
        # Side by side where they have to be made; those of an archive are there already.
        if drives and not has_file:
            prepare_captures(drives, min(count_processors(), _MOST_DRIVES))
        captures = []
        for place, own in zip(self.places, jobs):
            driven = capture_package(own, archive) if own is not None else None
            captures.append(PackageCapture(self.package, place.choice, place.target, driven))
        return CapturedPackage(self, tuple(captures))

    def _warn_of_other_cards(self) -> None:
        """Warn of targets whose launches are recorded on the card of another target."""
        for place in self.places:
            if not _is_imitated(place.target):
                _LOG.warning(
                    f"{place.target}: flacheck imitates NVIDIA cards only, so the launches of "
                    f"{self.package.identity} are recorded on {place.card['gpu']} and compiled for "
                    f"{place.target}; on an AMD card the package may choose other kernels and "
                    "settings"
                )


@dataclass(frozen=True)
class CapturedPackage:
    """A package with its launches under each compiler for each target."""

    resolved: ResolvedPackage
    captures: tuple[PackageCapture, ...]

    def expand(self) -> Plan:
        """Return the plan of the job: the cells of the captured launches."""
        resolved = self.resolved
        job, package = resolved.job, resolved.package
        # A hundred thousand cells take two minutes: not under the name of the last capture.
        _LOG.info(f"listing the cells of {package.identity} …")
        cells: list[Cell] = []
        usual_keys: set[str] = set()
        configs: set[str] = set()
        attempts: dict[str, Attempt] = {}
        coverages: list[PackageCoverage] = []
        extent_of: dict[Place, LaunchExtent] = {}
        size_sources: dict[tuple[str, str], str] = {}
        for launched in _select(self.captures, job):
            capture = launched.capture
            own_attempts = _attempts(capture, job.selection)
            attempts.update(
                {cell.key: attempt for cell, attempt in own_attempts.items() if attempt}
            )
            cells += own_attempts
            usual_keys.update(cell.key for cell in own_attempts)
            if capture.driven and not capture.driven.import_error:
                chosen = _choose_cells(launched, job)
                configs.add(chosen.configs)
                tuner_cells = _autotuner_cells(launched, job)
                own_cells = [*chosen.usual, *tuner_cells, *chosen.others]
                cells += own_cells
                usual_keys.update(cell.key for cell in (*chosen.usual, *tuner_cells))
                coverages.append(_coverage_of(capture, job.selection))
                if chosen.configs != "own":
                    own_cells = []
                missing_kernels = [each["kernel"] for each in coverages[-1]["missed"]]
                extent_of.update(_extents(launched, own_cells, missing_kernels, job))
                for entry in filter(lambda entry: entry.sizes_from, launched.recorded):
                    size_sources.setdefault(launch_key(entry), str(entry.sizes_from))
        if not cells:
            # Only now: under some releases an operator may well launch nothing.
            entries = [entry for capture in self.captures for entry in _recorded(capture)]
            call_paths.check_ops(job.selection.ops, entries, package.identity)
            names = {*_launchable(package, ()), *(entry.kernel for entry in entries)}
            _check_kernels(job.selection.kernels, names, package.identity)
        return Plan(
            name=package.identity,
            source=checkouts.question_source(str(job.subject.package)),
            cells=cells,
            choices=resolved.choices,
            packages={package.identity: package},
            forms=_forms_of(cells),
            warnings=resolved.warnings,
            attempts=attempts,
            coverage=tuple(coverages),
            extents=extent_of,
            trust=True,
            usual_keys=frozenset(usual_keys),
            configs=frozenset(configs),
            size_sources=size_sources,
        )


@dataclass(frozen=True)
class SelectedLaunches:
    """The selected launches of a capture.

    `candidates` are those whose configurations may be compiled, `usual` one of each kernel and
    dtype.
    """

    capture: PackageCapture
    recorded: Sequence[RecordedLaunch]
    candidates: Sequence[RecordedLaunch]
    usual: Sequence[RecordedLaunch]

    def sources(self, entries: Sequence[RecordedLaunch]) -> list[Source]:
        """Return some of the launches as sources of cells."""
        return replay.sources(entries, importable_packages(self.capture), or_cut=True)


def resolve_package(job: Job, resolver: Resolver | None = None) -> ResolvedPackage:
    """Return a job's package with its compilers and targets.

    The package is installed: its digest is part of the question. None of its code runs.

    Raises:
        UsageError: If the package, a compiler or a target does not exist.
        EmptySelection: If the package cannot contain Triton kernels.
    """
    resolver = resolver or Resolver()
    specs = job.selection.toolchains or (DEFAULT_SPEC,)
    names = list(dict.fromkeys(name for spec in specs for name in resolver(spec)))
    target_names = list(job.selection.targets or DEFAULT_TARGETS)
    nvidia_targets = [target for target in target_names if _is_imitated(target)]
    rows = []
    for target in target_names:
        on = target
        if not _is_imitated(target):
            on = next(iter(nvidia_targets), DEFAULT_TARGETS[0])
        rows.append((targets.find(target).name, card(on)))
    package = provide_package(str(job.subject.package))
    # The tests of a checkout may bring kernels of their own.
    if not job.subject.with_tests and not package.may_contain_kernels:
        raise EmptySelection(
            f"{package.identity} contains no Triton kernels: no Python file of it or of its "
            "requirements names triton"
        )
    places = [CapturePlace(resolver.choices[name], *row) for name in names for row in rows]
    warnings = tuple(dict.fromkeys(resolver.warnings))
    return ResolvedPackage(job, package, places, resolver.choices, warnings)


def _with_compiler(job: CaptureJob, place: CapturePlace, has_file: bool) -> CaptureJob | None:
    """Return a capture with its compiler; None if there is none or it does not know the target."""
    # A capture that is there names its compiler, which is fetched once a cell is due.
    if has_file or is_captured(job):
        return job if place.compiles else None
    toolchain = _provide(place)
    return replace(job, toolchain=toolchain) if toolchain else None


def _check_kernels(globs: Iterable[str], names: Collection[str], where: str) -> None:
    """Raise EmptySelection for a glob that matches none of a package's kernels; suggest others."""
    for glob in globs if names else ():
        if not any(matches_kernel([glob], name) for name in names):
            last_parts = sorted(set(map(last_part, names)))
            hint = did_you_mean(glob, last_parts) or f": {', '.join(last_parts[:_MOST_NAMED])}"
            raise EmptySelection(
                f"{where}: {glob!r} matches none of its {len(names)} kernels{hint}"
            )


def _coverage_of(capture: PackageCapture, selection: Selection) -> PackageCoverage:
    """Return how many of the package's kernels a capture recorded, and why others are missing."""
    assert capture.driven is not None
    package = capture.package
    sought = capture.driven.report.get("sought")
    kernels = _launchable(package, selection.kernels if sought is not None else ())
    if sought is not None:
        # A selection may name kernels below another prefix than the recipe's. Nothing can tell that
        # a selected function launches a kernel that no operator reaches.
        names = set(sought)
        if not selection.ops:
            names.update(filter(selection.names, kernels))
        kernels = {name: kernels.get(name, ()) for name in sorted(names)}
    kernel_coverage = coverage(kernels, capture.driven.kernels, capture.driven.report)
    return {
        "package": package.identity,
        "toolchain": capture.choice.identity,
        **kernel_coverage,
    }


def _forms_of(cells: Iterable[Cell]) -> dict[tuple[str | None, str], tuple[str, str]]:
    forms = {}
    for cell in cells:
        form = form_of(cell.kernel)
        if form:
            forms[cell.kernel.package, cell.kernel.name] = form
    return forms


def _is_imitated(target: str) -> bool:
    return targets.find(target).backend == "cuda"


def _provide(place: CapturePlace) -> Toolchain | None:
    """Install the compiler to capture under; None if there is none that compiles for the target."""
    if not place.compiles:
        return None
    try:
        return provide(place.choice)
    except ToolchainError:
        return None


def select_launches(capture: PackageCapture, selection: Selection) -> list[RecordedLaunch]:
    """Return the launches of a capture that a selection leaves."""
    return call_paths.select_launches(_recorded(capture), selection, capture.package.identity)


def _recorded(capture: PackageCapture) -> Sequence[RecordedLaunch]:
    """Return a capture's launches; none without a compiler."""
    if capture.driven is None:
        return ()
    return launches.read(capture.driven.launches, ours=True).launches


def _launchable(package: Package, globs: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the kernels that a package launches, below the prefix of its recipe if it has one."""
    prefix = recipe_of(package.name).get("coverage")
    prefixes = [str(prefix)] if prefix else package.modules
    kernels: dict[str, tuple[str, ...]] = {}
    for each in prefixes:
        kernels |= launchable(package.path, each, globs)
    return kernels


def form_of(kernel: Kernel) -> tuple[str, str] | None:
    """Return operator and form of a package's kernel if its module names them.

    `fla.ops.gla.fused_recurrent` is the form `fused_recurrent` of `fla.ops.gla`.
    """
    operator, _, last = kernel.name.partition(":")[0].rpartition(".")
    for form in FORMS:
        if last.startswith(form):
            return operator, form
    return None


def _attempts(capture: PackageCapture, selection: Selection) -> dict[Cell, Attempt | None]:
    """Return the cells that the capture tried itself, with their attempts.

    These are the import of the package, imports of its modules, and calls that the package refuses.
    An import without an attempt is yet to be compiled. A module that cannot be imported is a
    failure of the release only if a rule blames the release for it: other modules lack a dependency
    or clash with one. An operator's exception counts only if it names a Triton release. The others
    stand in the coverage.
    """
    driven = capture.driven
    if driven is None:
        return {_import_cell(capture): None}
    if driven.import_error:
        return {_import_cell(capture): _import_attempt(driven.import_error)}
    attempts: dict[Cell, Attempt | None] = {}
    if not _is_imitated(capture.target):
        # A refusal belongs to the card that the package was called on.
        return attempts
    for module, log in driven.report["modules"].items():
        is_recognised = any(rules.blames_release(finding.code) for finding in rules.read(log))
        # Users import these modules first; a module deeper down may be meant for other releases.
        lacks_triton = module in capture.package.modules and _LACKS.search(log)
        if is_recognised or lacks_triton:
            attempts[_import_cell(capture, module)] = _import_attempt(log)
    for name, entry in driven.report["operators"].items():
        refusals = [log for log in entry["failures"].values() if _REFUSAL.search(log)]
        if refusals:
            cell = replace(_import_cell(capture, name), stage="call")
            attempts[cell] = replace(_import_attempt(refusals[0]), stage="call")
    return {cell: attempts[cell] for cell in attempts if _is_selected(selection, cell.kernel.name)}


def _is_selected(selection: Selection, name: str) -> bool:
    """Return True if a selection leaves a module or function."""
    if selection.ops and not call_paths.matches(selection.ops, name.replace(":", ".")):
        return False
    return selection.names(name)


def _import_cell(capture: PackageCapture, module: str | None = None) -> Cell:
    """Return the cell of a package's import, or of a module's import."""
    package = capture.package
    module = module or package.modules[0]
    name = module if ":" in module else f"{module}:__init__"
    kernel = Kernel(name, package.identity, package.digest, Imported(module))
    return Cell(kernel, capture.choice.identity, capture.target, None, stage="import")


def _import_attempt(traceback: str) -> Attempt:
    last = [line for line in traceback.splitlines() if line.strip()][-1]
    kind = last.partition(":")[0].rpartition(".")[2]
    number = _ERROR_NUMBER.search(last)
    host_error = errno.errorcode.get(int(number[1])) if number else None
    return Attempt(
        Outcome.RAISED, stage="import", log=traceback, exception=(kind,), host_error=host_error
    )


def _select(captures: Sequence[PackageCapture], job: Job) -> Iterator[SelectedLaunches]:
    """Yield each capture with its selected launches."""
    recorded_lists = [select_launches(capture, job.selection) for capture in captures]
    candidate_lists = recorded_lists
    usual_lists = [launches.one_each(entries) for entries in recorded_lists]
    if job.subject.compares:
        usual_lists = _for_each_target(captures, recorded_lists, launches.shared)
    if job.subject.compares and job.subject.configs != "own":
        candidate_lists = _for_each_target(captures, recorded_lists, launches.common)
    for row in zip(captures, recorded_lists, candidate_lists, usual_lists):
        yield SelectedLaunches(*row)


def _for_each_target(
    captures: Sequence[PackageCapture],
    recorded: Sequence[list[RecordedLaunch]],
    choose: Callable[[Sequence[list[RecordedLaunch]]], list[list[RecordedLaunch]]],
) -> list[list[RecordedLaunch]]:
    """Return the choice among the launches of all compilers, target by target."""
    lists = [list[RecordedLaunch]() for _ in captures]
    for target in {capture.target for capture in captures}:
        indices = [index for index, each in enumerate(captures) if each.target == target]
        choices = choose([recorded[index] for index in indices])
        for index, entries in zip(indices, choices):
            lists[index] = entries
    return lists


def importable_packages(capture: PackageCapture) -> dict[str, Package]:
    """Return the package by its identity; empty if its kernels must not be imported."""
    if not _is_imitated(capture.target):
        # Imported for this target, the package may define other kernels than were recorded.
        return {}
    return {capture.package.identity: capture.package}


def _extents(
    launched: SelectedLaunches, cells: Sequence[Cell], unreached_kernels: Sequence[str], job: Job
) -> dict[Place, LaunchExtent]:
    """Return the extent of a capture: of the cells if they are all configurations.

    Args:
        launched: The capture with its selected launches.
        cells: The cells of every configuration; empty if fewer are compiled.
        unreached_kernels: The kernels that the capture did not record.
        job: The job.
    """
    recorded = launched.recorded
    missing_kernels = [kernel for kernel in unreached_kernels if job.selection.names(kernel)]
    if job.selection.ops:
        # The operators that lead to an unrecorded kernel are unknown.
        missing_kernels = []
    configurations = of_cells(cells)
    if not cells and recorded:
        configurations = list_configurations(
            matrix_of(launched.capture, "compile"),
            launched.sources(recorded),
            without_places(job.selection),
            lambda spec: (spec,),
        )
    operators = operators_of(recorded, Path(launched.capture.package.path))
    return extents(configurations, operators, missing_kernels)


def without_places(selection: Selection) -> Selection:
    """Return a selection without the parts that selected launches and places already."""
    return replace(selection, kernels=(), ops=(), targets=(), toolchains=())


def matrix_of(capture: PackageCapture, stage: str) -> Matrix:
    """Return the matrix of a capture's launches in one stage."""
    assert capture.driven is not None
    axes: Mapping[str, tuple[Any, ...]] = {
        "target": (capture.target,),
        "toolchain": (capture.choice.identity,),
        "stage": (stage,),
    }
    return Matrix(capture.package.identity, str(capture.driven.launches), (Block(axes),))


def _choose_cells(launched: SelectedLaunches, job: Job) -> ChosenCells:
    """Return the cells of a capture's launches."""
    kernels = RecordedKernels(
        matrix_of(launched.capture, "compile"),
        launched.sources(launched.usual),
        launched.sources(launched.candidates),
    )
    return choose_cells(
        kernels,
        job.subject.configs,
        without_places(job.selection),
        lambda spec: (spec,),
        job.until,
    )


def _autotuner_cells(launched: SelectedLaunches, job: Job) -> list[Cell]:
    """Return the cells of autotuner runs, for releases whose autotuners look keys up by place."""
    capture = launched.capture
    package_folders = importable_packages(capture)
    if not package_folders or Version(capture.choice.version) >= KEYS_BY_NAME:
        return []
    tuned_launches = [entry for entry in launched.recorded if len(entry.launch.configs) > 1]
    sources = replay.decorated_sources(launches.one_each(tuned_launches), package_folders)
    matrix = matrix_of(capture, "autotune")
    selection = without_places(job.selection)
    return list(expand(matrix, sources, selection, lambda spec: (spec,), job.until))
