"""Which launches are examined, and all that is known of their kernels.

Of each autotuned kernel one launch is examined under each toolchain on each target; the others only
tell of its keys. With `every_key` a launch of each distinct binary is examined, so that each known
key of the autotuner is covered. Kernels, packages and captures come from `flacheck.inputs`. Added
here is what an autotuner is judged by: the kernel's source, the host code that launches it, and the
calls seen.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from flacheck.analysis.known_good import group_by_key
from flacheck.capabilities.autotune.keys import binary
from flacheck.capabilities.autotune.results import Args, TunedLaunch
from flacheck.errors import EmptySelection, UsageError
from flacheck.fallbacks.constexprs import host_launches, kernel_code
from flacheck.inputs import call_paths, launches, matrix, replay
from flacheck.inputs.expand import DEFAULT_TARGETS, Selection, Source, check_kernels, expand
from flacheck.inputs.launches import RecordedLaunch, stale
from flacheck.inputs.matrix import Block, Matrix
from flacheck.inputs.sources import kernels_of, launches_file, matrices
from flacheck.inputs.subject import Subject
from flacheck.model import Cell, Corpus, Cut, Kernel, Launch, Stubbed, digest
from flacheck.packages.package import Package
from flacheck.pipeline.job import Job
from flacheck.pipeline.package_launches import PackageCapture, resolve_package
from flacheck.source import autotuners
from flacheck.source.autotuners import AutotunedKernel
from flacheck.tables import find_shipped_folder
from flacheck.toolchains import Resolver
from flacheck.toolchains.base import Choice

_LOG = logging.getLogger(__name__)

# What most of these kernels are trained in.
_DTYPE = "bf16"
# What of a matrix tells launches apart. Its configurations are the autotuner's own here.
_AXES = ("kernel", "package", "dtype", "shape")
_Packages = Mapping[str, Package]


@dataclass(frozen=True)
class TunedLaunches:
    """The launches to examine, with their compilers and packages; `notes` are for the user, `trust`
    is the user's word for the sources."""

    launches: Sequence[TunedLaunch]
    choices: Mapping[str, Choice]
    packages: _Packages
    notes: Sequence[str] = ()
    trust: bool = False


def of_matrix(name: str | None, selection: Selection, every_key: bool = False) -> TunedLaunches:
    """A matrix's kernels (flacheck's own without one): of each the first launch in bf16, or in the
    first dtype that there is."""
    kernels = kernels_of(Subject(name), selection)
    check_kernels(selection.kernels, [source.kernel.name for source in kernels.sources])
    sources = [source for source in kernels.sources if selection.names(source.kernel.name)]
    resolver = Resolver()
    tuned = _of_sources(kernels.matrix, sources, selection, resolver, kernels.packages, every_key)
    if not tuned:
        raise EmptySelection(
            f"no kernel that {_globs(selection)} names has an autotuner and a launch in the dtypes "
            "asked"
        )
    notes = [*kernels.warnings, *resolver.warnings]
    return TunedLaunches(tuned, resolver.choices, kernels.packages, notes)


def of_launches(
    file: Path,
    selection: Selection,
    line: int | None = None,
    trust: bool = False,
    every_key: bool = False,
) -> TunedLaunches:
    """The autotuned kernels of a launches file, or the one that is launched on a line of it; all
    their launches tell of the keys."""
    read = launches.read(file, trust=trust)
    entries = launches_file.entries_of(read, file, line, trust)
    check_kernels(selection.kernels, [entry.kernel for entry in entries])
    selected = call_paths.select_checked(entries, selection, str(file))
    wanted: Sequence[RecordedLaunch] = [entry for entry in selected if entry.launch.configs]
    if not wanted and line is not None:
        raise UsageError(f"{file}:{line}: the kernel that is launched here has no autotuner")
    if not wanted:
        raise EmptySelection(f"{file}: no kernel that {_globs(selection)} names has an autotuner")
    wanted, refusals = launches.without_refused(wanted)
    provided = replay.provide_packages(file, wanted, trust)
    targets = launches_file.recorded_targets(read)
    resolver = Resolver()
    tuned: list[TunedLaunch] = []
    for of_kernel in group_by_key((entry.kernel, entry) for entry in wanted).values():
        tuned += _of_entries(
            of_kernel,
            selection,
            resolver,
            provided,
            targets,
            is_captured=False,
            every_key=every_key,
        )
    if not tuned:
        raise EmptySelection(f"{file}: none of its launches in the dtypes asked can be built again")
    _, changed = stale.find_changes(file, wanted)
    notes = [*changed, *refusals, *resolver.warnings]
    return TunedLaunches(tuned, resolver.choices, provided, notes, trust)


def of_package(spec: str, selection: Selection, every_key: bool = False) -> TunedLaunches:
    """A package's autotuned kernels, captured under each toolchain and on each target. Where the
    package cannot be imported, or does not launch a kernel, the kernel is named with what its
    source says of its keys."""
    resolver = Resolver()
    job = Job(Subject(package=spec), selection)
    captures = resolve_package(job, resolver).capture().captures
    package = captures[0].package
    own_names = [name for name in _autotuned_names(package) if selection.names(name)]
    if selection.ops:
        # What was never launched came through no function.
        own_names = []
    # What shipped matrices launch the package's kernels with at this version.
    known: list[tuple[Matrix, Source]] = []
    for read in map(matrix.find, matrix.names()):
        if any(fnmatchcase(package.identity, listed) for listed in read.packages):
            sources = matrices.package_sources(read, package.identity, package)
            known += [(read, source) for source in sources]
    tuned: list[TunedLaunch] = []
    for capture in captures:
        asked = call_paths.select_launches(_recorded(capture), selection, package.identity)
        recorded = [entry for entry in asked if entry.launch.configs]
        launched = group_by_key((entry.kernel, entry) for entry in recorded)
        for name, entries in launched.items():
            if selection.names(name):
                tuned += _of_capture(capture, entries, known, selection, resolver, every_key)
        tuned += [_unlaunched(capture, name) for name in own_names if name not in launched]
    if not tuned:
        raise EmptySelection(f"{spec}: no kernel that {_globs(selection)} names has an autotuner")
    packages = {package.identity: package}
    return TunedLaunches(tuned, resolver.choices, packages, resolver.warnings, trust=True)


def _globs(selection: Selection) -> str:
    return ", ".join(map(repr, selection.kernels or ("*",)))


def _recorded(capture: PackageCapture) -> Sequence[RecordedLaunch]:
    """What the package launched; nothing without a compiler, or where it cannot be imported."""
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
    known: Sequence[tuple[Matrix, Source]],
    selection: Selection,
    resolver: Resolver,
    every_key: bool,
) -> Iterator[TunedLaunch]:
    """A captured launch; in its place one that a shipped matrix knows, told of all the calls. With
    `every_key` those of both."""
    provided = {capture.package.identity: capture.package}
    here = replace(selection, toolchains=(capture.choice.identity,), targets=(capture.target,))
    # What a matrix declares was somebody's launch; what the driver made up only fits the kernel.
    better = [
        tuned
        for read, source in known
        if source.kernel.name == entries[0].kernel
        for tuned in _of_sources(read, [source], here, resolver, provided, every_key)
    ]
    captured_launches = list(
        _of_entries(entries, here, resolver, provided, (), is_captured=True, every_key=every_key)
    )
    if every_key:
        yield from _one_each([*better, *captured_launches])
        return
    for own in captured_launches:
        if better:
            yield replace(
                better[0], observed_calls=(*own.observed_calls, *better[0].observed_calls)
            )
        else:
            yield own


def _one_each(tuned: Sequence[TunedLaunch]) -> list[TunedLaunch]:
    """Return the first launch of each binary, with all calls that were seen of its kernel."""
    observed_calls = tuple(call for each in tuned for call in each.observed_calls)
    first: dict[str, TunedLaunch] = {}
    for each in tuned:
        same = first.setdefault(binary(each.equivalent_calls[0]), each)
        equivalent_calls = same.equivalent_calls
        if same is not each:
            equivalent_calls = (*equivalent_calls, *each.equivalent_calls)
        first[binary(each.equivalent_calls[0])] = replace(
            same, observed_calls=observed_calls, equivalent_calls=equivalent_calls
        )
    return list(first.values())


def _unlaunched(capture: PackageCapture, name: str) -> TunedLaunch:
    """A kernel without a launch: whether its module can be imported is all that can be asked."""
    package = capture.package
    module, _, qualname = name.partition(":")
    identity = digest([package.digest, name])
    kernel = Kernel(name, package.identity, identity, Stubbed(module, qualname))
    cell = Cell(kernel, capture.choice.identity, capture.target, Launch({}), stage="import")
    return TunedLaunch(cell, {}, (), True, _declared(kernel, {package.identity: package}))


def _autotuned_names(package: Package) -> Iterator[str]:
    """The autotuned kernels in a package's own modules."""
    root = Path(package.path)
    for top in package.modules:
        for file in sorted((root / top).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            for name in autotuners.names_in(file):
                yield f"{module.removesuffix('.__init__')}:{name}"


def _of_sources(
    read: Matrix,
    sources: Sequence[Source],
    selection: Selection,
    resolver: Resolver,
    provided: _Packages,
    every_key: bool,
) -> list[TunedLaunch]:
    """One launch of each kernel under each toolchain on each target, with `every_key` one of each
    binary, in one dtype unless the selection names several."""
    runs = _runs(sources, selection, resolver, DEFAULT_TARGETS, read.blocks)
    places = group_by_key(
        ((run.kernel.name, run.kernel.package, run.toolchain, run.target), run) for run in runs
    )
    tuned = []
    for cells in places.values():
        chosen = next((cell for cell in cells if cell.dtype == _DTYPE), cells[0])
        observed_calls = tuple(cell.launch.args for cell in cells if cell.launch)
        declaration = _declared(chosen.kernel, provided)
        equivalent_calls = [[chosen]]
        if every_key:
            same = [each for each in cells if selection.dtypes or each.dtype == chosen.dtype]
            equivalent_calls = list(
                group_by_key((binary(_arguments(each)), each) for each in same).values()
            )
        for group in equivalent_calls:
            made = TunedLaunch(group[0], {}, observed_calls, True, declaration, by_matrix=True)
            made = replace(made, equivalent_calls=tuple(map(_arguments, group)))
            tuned.append(_with_code(made, provided))
    return tuned


def _arguments(cell: Cell) -> Args:
    assert cell.launch is not None
    return cell.launch.args


def _of_entries(
    entries: Sequence[RecordedLaunch],
    selection: Selection,
    resolver: Resolver,
    provided: _Packages,
    targets: Sequence[str],
    is_captured: bool,
    every_key: bool = False,
) -> Iterator[TunedLaunch]:
    """One launch of a kernel under each toolchain on each target, the first in a dtype asked; with
    `every_key` one of each binary."""
    dtypes = selection.dtypes
    fitting = [entry for entry in entries if not dtypes or entry.launch.dtype in dtypes]
    if not fitting:
        return
    observed_calls = tuple(map(_call, entries))
    # A launch of the program's, or of an operator, before one that a driver made up.
    groups = [[min(fitting, key=lambda entry: entry.made_up)]]
    if every_key:
        real = [entry for entry in fitting if not entry.made_up] or fitting
        groups = list(group_by_key((binary(_call(entry)), entry) for entry in real).values())
    for group in groups:
        chosen = group[0]
        sources = launches.sources([chosen])
        options: Mapping[str, Any] = {}
        # A kernel that is defined within a function has no name to import.
        if chosen.package in provided and "<locals>" not in chosen.kernel:
            sources, options = replay.decorated_sources([chosen], provided), chosen.options
        for cell in _runs(sources, replace(selection, dtypes=()), resolver, targets):
            declaration = _declared(cell.kernel, provided)
            made = TunedLaunch(
                cell, options, observed_calls, is_captured, declaration, recorded_launch=chosen
            )
            made = replace(made, equivalent_calls=tuple(map(_call, group)))
            yield _with_code(made, provided)


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
    """The autotuner runs of sources: a cell a launch, dtype, shape, toolchain and target."""
    asked = {
        "stage": ("autotune",),
        "target": tuple(selection.targets or targets),
        "toolchain": selection.toolchains or ("installed",),
    }
    kept = [{axis: block.axes[axis] for axis in _AXES if axis in block.axes} for block in blocks]
    made = Matrix("autotune", "autotune", tuple(Block({**axes, **asked}) for axes in kept))
    yield from expand(made, sources, Selection(dtypes=selection.dtypes), resolver)


def _declared(kernel: Kernel, provided: _Packages) -> AutotunedKernel | None:
    """A kernel's source: flacheck's own, the package's, else the cut one without a file."""
    origin = kernel.origin
    if isinstance(origin, Corpus):
        file = find_shipped_folder("kernels") / f"{origin.family}.py"
        return autotuners.of_file(file, origin.name, f"kernels/{file.name}")
    package = provided.get(kernel.package or "")
    if package is not None:
        return autotuners.of_module(Path(package.path), kernel.name)
    if isinstance(origin, Cut):
        return autotuners.of_text(origin.source, origin.qualname)
    return None


def _with_code(tuned: TunedLaunch, provided: _Packages) -> TunedLaunch:
    """A tuned kernel with what its code and its launching host code do with parameters."""
    kernel = tuned.cell.kernel
    code = kernel_code(kernel, provided)
    return replace(tuned, code=code, hosts=tuple(host_launches(kernel, code.parameters, provided)))
