"""The launches to examine, with the facts that an autotuner is judged by.

Under each toolchain on each target, one launch of each autotuned kernel is examined; the others
only show keys. With `every_key` one launch of each distinct binary is examined, so that every
recorded key is covered. Kernels, packages and captures come from `flacheck.subjects.inputs`; this
module adds the kernel's source, the host code that launches it, and the observed calls.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from flacheck.capabilities.autotune.keys import binary
from flacheck.capabilities.autotune.results import Args, TunedLaunch
from flacheck.errors import EmptySelection, UsageError
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.model import Cell, Corpus, Cut, Kernel, Launch, Stubbed, digest
from flacheck.pipeline.fallbacks.constexprs import host_launches, kernel_code
from flacheck.pipeline.job import Job
from flacheck.pipeline.package_launches import PackageCapture, resolve_package
from flacheck.source import autotuners
from flacheck.source.autotuners import AutotunedKernel
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs import call_paths, launches, matrix, replay
from flacheck.subjects.inputs.corpus import defining_file
from flacheck.subjects.inputs.expand import (
    DEFAULT_TARGETS,
    Selection,
    Source,
    check_kernels,
    expand,
)
from flacheck.subjects.inputs.launches import RecordedLaunch, stale
from flacheck.subjects.inputs.matrix import Block, Matrix
from flacheck.subjects.inputs.sources import kernels_of, launches_file, matrices
from flacheck.subjects.inputs.subject import Subject
from flacheck.toolchains import DEFAULT_SPEC, Resolver
from flacheck.toolchains.base import Choice

_LOG = logging.getLogger(__name__)

# The matrix with every declared shape of the corpus.
EVERY_SHAPE = "full"
# Most of these kernels are trained in bf16.
_DTYPE = "bf16"
# The axes of a matrix that distinguish launches; the configurations are the autotuner's own.
_AXES = ("kernel", "package", "dtype", "shape")
_Packages = Mapping[str, Package]


@dataclass(frozen=True)
class TunedLaunches:
    """The launches to examine, with their compilers and packages.

    `notes` are for the user; `trust` is True if the user trusts the sources.
    """

    launches: Sequence[TunedLaunch]
    choices: Mapping[str, Choice]
    packages: _Packages
    notes: Sequence[str] = ()
    trust: bool = False


def of_matrix(name: str | None, selection: Selection, every_key: bool = False) -> TunedLaunches:
    """Return the launches of a matrix, by default flacheck's own kernels.

    The first launch of each kernel in bf16 is examined, or in the first dtype. With `every_key`
    and without a matrix every declared shape of a kernel counts, for each has its own key.

    Raises:
        EmptySelection: If no selected kernel has an autotuner and a launch.
    """
    matrix_name = name or (EVERY_SHAPE if every_key else None)
    kernels = kernels_of(Subject(matrix_name), selection)
    check_kernels(selection.kernels, [source.kernel.name for source in kernels.sources])
    sources = [source for source in kernels.sources if selection.names(source.kernel.name)]
    resolver = Resolver()
    examined_launches = _of_sources(
        kernels.matrix, sources, selection, resolver, kernels.packages, every_key
    )
    if not examined_launches:
        raise EmptySelection(
            f"no kernel that {_globs(selection)} names has an autotuner and a launch in the dtypes "
            "asked"
        )
    notes = [*kernels.warnings, *resolver.warnings]
    return TunedLaunches(examined_launches, resolver.choices, kernels.packages, notes)


def of_launches(
    file: Path,
    selection: Selection,
    line: int | None = None,
    trust: bool = False,
    every_key: bool = False,
) -> TunedLaunches:
    """Return the launches of a launches file, or the launch on one line of the file.

    The keys of a kernel are read off all its launches.

    Raises:
        UsageError: If the kernel on `line` lacks an autotuner.
        EmptySelection: If no launch can be examined.
    """
    contents = launches.read(file, trust=trust)
    entries = launches_file.entries_of(contents, file, line, trust)
    check_kernels(selection.kernels, [entry.kernel for entry in entries])
    selected_entries = call_paths.select_checked(entries, selection, str(file))
    with_configs = [entry for entry in selected_entries if entry.launch.configs]
    if not with_configs and line is not None:
        raise UsageError(f"{file}:{line}: the kernel that is launched here has no autotuner")
    if not with_configs:
        raise EmptySelection(f"{file}: no kernel that {_globs(selection)} names has an autotuner")
    usable, refusals = launches.without_refused(with_configs)
    packages = replay.provide_packages(file, usable, trust)
    targets = launches_file.recorded_targets(contents)
    resolver = Resolver()
    examined_launches: list[TunedLaunch] = []
    for kernel_entries in group_by_key((entry.kernel, entry) for entry in usable).values():
        examined_launches += of_entries(
            kernel_entries,
            selection,
            resolver,
            packages,
            targets,
            is_captured=False,
            every_key=every_key,
        )
    if not examined_launches:
        raise EmptySelection(
            f"{file}: none of its launches in the requested dtypes can be built again"
        )
    _, changes = stale.find_changes(file, usable)
    notes = [*changes, *refusals, *resolver.warnings]
    return TunedLaunches(examined_launches, resolver.choices, packages, notes, trust)


def of_package(spec: str, selection: Selection, every_key: bool = False) -> TunedLaunches:
    """Return a package's autotuned kernels, captured under each toolchain and on each target.

    A kernel without a launch, or of a package that cannot be imported, is included with the keys
    in its source.

    Raises:
        EmptySelection: If no selected kernel has an autotuner.
    """
    resolver = Resolver()
    job = Job(Subject(package=spec), selection)
    captures = resolve_package(job, resolver).capture().captures
    package = captures[0].package
    own_names = [name for name in _autotuned_names(package) if selection.names(name)]
    if selection.ops:
        # A kernel without a launch was not reached by any operator.
        own_names = []
    matrix_sources = _matrix_sources(package)
    examined_launches: list[TunedLaunch] = []
    for capture in captures:
        entries = call_paths.select_launches(_entries(capture), selection, package.identity)
        by_kernel = group_by_key((entry.kernel, entry) for entry in entries if entry.launch.configs)
        for name, kernel_entries in by_kernel.items():
            if selection.names(name):
                examined_launches += _of_capture(
                    capture, kernel_entries, matrix_sources, selection, resolver, every_key
                )
        for name in own_names:
            if name not in by_kernel:
                examined_launches.append(_without_launch(capture, name))
    if not examined_launches:
        raise EmptySelection(f"{spec}: no kernel that {_globs(selection)} names has an autotuner")
    packages = {package.identity: package}
    return TunedLaunches(
        examined_launches, resolver.choices, packages, resolver.warnings, trust=True
    )


def _matrix_sources(package: Package) -> list[tuple[Matrix, Source]]:
    """Return the launches of the package's kernels in shipped matrices for this version."""
    matrix_sources: list[tuple[Matrix, Source]] = []
    for name in matrix.names():
        shipped_matrix = matrix.find(name)
        if any(fnmatchcase(package.identity, glob) for glob in shipped_matrix.packages):
            for source in matrices.package_sources(shipped_matrix, package.identity, package):
                matrix_sources.append((shipped_matrix, source))
    return matrix_sources


def _globs(selection: Selection) -> str:
    return ", ".join(map(repr, selection.kernels or ("*",)))


def _entries(capture: PackageCapture) -> Sequence[RecordedLaunch]:
    """Return the package's launches; empty without a compiler, or if it cannot be imported."""
    if capture.driven is None:
        return ()
    if capture.driven.import_error:
        last = capture.driven.import_error.strip().splitlines()[-1]
        release = f"{capture.package.identity} cannot be imported under {capture.choice.identity}"
        _LOG.info(f"{release}: {last}")
        return ()
    return launches.read(capture.driven.launches, ours=True).launches


def _of_capture(
    capture: PackageCapture,
    entries: Sequence[RecordedLaunch],
    matrix_sources: Sequence[tuple[Matrix, Source]],
    selection: Selection,
    resolver: Resolver,
    every_key: bool,
) -> Iterator[TunedLaunch]:
    """Yield a kernel's launch from a shipped matrix, or the captured one if no matrix has it.

    The launch has the calls of both; with `every_key` the launches of both are yielded.
    """
    packages = {capture.package.identity: capture.package}
    here = replace(selection, toolchains=(capture.choice.identity,), targets=(capture.target,))
    # The sizes in a matrix are those of real programs; the driver chooses sizes that compile.
    from_matrices: list[TunedLaunch] = []
    for source_matrix, source in matrix_sources:
        if source.kernel.name == entries[0].kernel:
            from_matrices += _of_sources(
                source_matrix, [source], here, resolver, packages, every_key
            )
    captured_launches = list(
        of_entries(entries, here, resolver, packages, (), is_captured=True, every_key=every_key)
    )
    if every_key:
        yield from _one_for_each_binary([*from_matrices, *captured_launches])
        return
    for own in captured_launches:
        if from_matrices:
            first = from_matrices[0]
            yield replace(first, observed_calls=(*own.observed_calls, *first.observed_calls))
        else:
            yield own


def _one_for_each_binary(tuned_launches: Sequence[TunedLaunch]) -> list[TunedLaunch]:
    """Return the first launch of each binary, with all observed calls of its kernel."""
    observed_calls: list[Args] = []
    for each in tuned_launches:
        observed_calls += each.observed_calls
    first_of: dict[str, TunedLaunch] = {}
    for each in tuned_launches:
        name = binary(each.equivalent_calls[0])
        first = first_of.setdefault(name, each)
        equivalent_calls = first.equivalent_calls
        if first is not each:
            equivalent_calls = (*equivalent_calls, *each.equivalent_calls)
        first_of[name] = replace(
            first, observed_calls=tuple(observed_calls), equivalent_calls=equivalent_calls
        )
    return list(first_of.values())


def _without_launch(capture: PackageCapture, name: str) -> TunedLaunch:
    """Return a kernel without a launch, of which only the import can be tested."""
    package = capture.package
    module, _, qualname = name.partition(":")
    identity = digest([package.digest, name])
    kernel = Kernel(name, package.identity, identity, Stubbed(module, qualname))
    cell = Cell(kernel, capture.choice.identity, capture.target, Launch({}), stage="import")
    return TunedLaunch(cell, {}, (), True, _declaration(kernel, {package.identity: package}))


def _autotuned_names(package: Package) -> Iterator[str]:
    """Yield the names of the autotuned kernels in a package's own modules."""
    root = Path(package.path)
    for top in package.modules:
        for file in sorted((root / top).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            for name in autotuners.names_in(file):
                yield f"{module.removesuffix('.__init__')}:{name}"


def _of_sources(
    source_matrix: Matrix,
    sources: Sequence[Source],
    selection: Selection,
    resolver: Resolver,
    packages: _Packages,
    every_key: bool,
) -> list[TunedLaunch]:
    """Return one launch of each kernel, or of each binary, under each toolchain on each target.

    All launches have one dtype unless the selection names several.
    """
    places: dict[tuple[str, str | None, str, str], list[Cell]] = {}
    for cell in _runs(sources, selection, resolver, DEFAULT_TARGETS, source_matrix.blocks):
        place = (cell.kernel.name, cell.kernel.package, cell.toolchain, cell.target)
        places.setdefault(place, []).append(cell)
    tuned_launches = []
    for cells in places.values():
        first = cells[0]
        for cell in cells:
            if cell.dtype == _DTYPE:
                first = cell
                break
        observed_calls = tuple(cell.launch.args for cell in cells if cell.launch)
        declaration = _declaration(first.kernel, packages)
        groups = [[first]]
        if every_key:
            if not selection.dtypes:
                cells = [cell for cell in cells if cell.dtype == first.dtype]
            groups = list(group_by_key((binary(_arguments(cell)), cell) for cell in cells).values())
        for group in groups:
            tuned_launch = TunedLaunch(
                group[0],
                {},
                observed_calls,
                True,
                declaration,
                by_matrix=True,
                equivalent_calls=tuple(map(_arguments, group)),
            )
            tuned_launches.append(_with_code(tuned_launch, packages))
    return tuned_launches


def _arguments(cell: Cell) -> Args:
    assert cell.launch is not None
    return cell.launch.args


def of_entries(
    entries: Sequence[RecordedLaunch],
    selection: Selection,
    resolver: Resolver,
    packages: _Packages,
    targets: Sequence[str],
    is_captured: bool,
    every_key: bool = False,
) -> Iterator[TunedLaunch]:
    """Yield one launch of a kernel, or of each binary, under each toolchain on each target.

    The launch is the first one in a selected dtype.
    """
    dtypes = selection.dtypes
    candidates = [entry for entry in entries if not dtypes or entry.launch.dtype in dtypes]
    if not candidates:
        return
    observed_calls = tuple(map(_call, entries))
    # A launch of the program or an operator comes before one with invented arguments.
    groups = [[min(candidates, key=lambda entry: entry.made_up)]]
    if every_key:
        real = [entry for entry in candidates if not entry.made_up] or candidates
        groups = list(group_by_key((binary(_call(entry)), entry) for entry in real).values())
    for group in groups:
        first = group[0]
        sources = launches.sources([first])
        options: Mapping[str, Any] = {}
        # A kernel that is defined within a function cannot be imported by name.
        if first.package in packages and "<locals>" not in first.kernel:
            sources = replay.decorated_sources([first], packages)
            options = first.options
        for cell in _runs(sources, replace(selection, dtypes=()), resolver, targets):
            tuned_launch = TunedLaunch(
                cell,
                options,
                observed_calls,
                is_captured,
                _declaration(cell.kernel, packages),
                recorded_launch=first,
                equivalent_calls=tuple(map(_call, group)),
            )
            yield _with_code(tuned_launch, packages)


def _call(entry: RecordedLaunch) -> Args:
    """Return a recorded launch's arguments, those of its heuristics among them."""
    return {**entry.launch.args, **entry.heuristics}


def _runs(
    sources: Sequence[Source],
    selection: Selection,
    resolver: Resolver,
    targets: Sequence[str],
    blocks: Sequence[Block] = (Block({}),),
) -> Iterator[Cell]:
    """Yield the autotuner runs of sources: a cell for each launch, dtype, shape and place."""
    own_axes = {
        "stage": ("autotune",),
        "target": tuple(selection.targets or targets),
        "toolchain": selection.toolchains or (DEFAULT_SPEC,),
    }
    own_blocks = []
    for block in blocks:
        axes = {axis: block.axes[axis] for axis in _AXES if axis in block.axes}
        own_blocks.append(Block({**axes, **own_axes}))
    own_matrix = Matrix("autotune", "autotune", tuple(own_blocks))
    yield from expand(own_matrix, sources, Selection(dtypes=selection.dtypes), resolver)


def _declaration(kernel: Kernel, packages: _Packages) -> AutotunedKernel | None:
    """Return a kernel's source: flacheck's own, the package's, or the cut one without a file."""
    origin = kernel.origin
    if isinstance(origin, Corpus):
        file = defining_file(origin.family, origin.name)
        return autotuners.of_file(file, origin.name, f"kernels/{file.name}")
    package = packages.get(kernel.package or "")
    if package is not None:
        return autotuners.of_module(Path(package.path), kernel.name)
    if isinstance(origin, Cut):
        return autotuners.of_text(origin.source, origin.qualname)
    return None


def _with_code(tuned_launch: TunedLaunch, packages: _Packages) -> TunedLaunch:
    """Add how the kernel's code and the launching host code use the parameters."""
    kernel = tuned_launch.cell.kernel
    code = kernel_code(kernel, packages)
    hosts = tuple(host_launches(kernel, code.parameters, packages))
    return replace(tuned_launch, code=code, hosts=hosts)
