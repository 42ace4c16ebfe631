"""The expansion of a matrix and a selection to cells.

The caller supplies kernels and toolchains; nothing is imported or installed.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from flacheck.errors import UsageError
from flacheck.model import Alternative, Cell, Kernel, Launch
from flacheck.subjects.inputs import edges
from flacheck.subjects.inputs.configurations import Config, choices, demand, is_config
from flacheck.subjects.inputs.edges import LaunchSettings
from flacheck.subjects.inputs.key_value_options import combinations
from flacheck.subjects.inputs.matrix import Axes, Matrix
from flacheck.toolchains import DEFAULT_SPEC, family_of, language_of
from flacheck.toolchains.base import Family

# A100 and H100: what most users train on.
DEFAULT_TARGETS = ("sm80", "sm90")
DEFAULT_DTYPES = ("bf16", "fp16", "fp32")


@dataclass(frozen=True)
class Source:
    """A kernel with its launches and the shapes to launch it in.

    Launches have their autotuner's configurations and keys.
    """

    kernel: Kernel
    launches: tuple[Launch, ...]
    shapes: tuple[Mapping[str, int], ...] = ()


@dataclass(frozen=True)
class Selection:
    """The user's selection on the command line; an empty field leaves the matrix as it is."""

    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    num_warps: tuple[int, ...] = ()
    num_stages: tuple[int, ...] = ()
    toolchains: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    # Each is `NAME=VALUE`: macros of CUDA units, and options of a compiler by their names.
    defines: tuple[str, ...] = ()
    options_given: tuple[str, ...] = ()

    def to_json(self) -> dict[str, list[str | int]]:
        """Return the fields that are not empty."""
        return {name: list(values) for name, values in vars(self).items() if values}

    def replaces(self, axes: Axes) -> Axes:
        """Return a block's axes with the selection in place of the matrix's own."""
        selection: dict[str, tuple[Any, ...]] = {
            "target": self.targets,
            "dtype": self.dtypes,
            "toolchain": self.toolchains,
        }
        if self.defines:
            selection["constants"] = combinations("--define", self.defines)
        if self.options_given:
            selection["options"] = combinations("--option", self.options_given)
        for axis, numbers in self.options().items():
            if axis in axes:
                selection[axis] = numbers
        result = dict(axes)
        for axis, values in selection.items():
            if values:
                result[axis] = values
        return result

    def options(self) -> dict[str, tuple[int, ...]]:
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}

    def names(self, kernel: str) -> bool:
        """Return True for a kernel of the selection."""
        return matches_kernel(self.kernels or ("*",), kernel)


@dataclass(frozen=True)
class _Job:
    """A cell without its target and toolchain.

    `base_launch` is the launch without a configuration; all its jobs share the object.
    `tuned_parameters` are those that its autotuner supplies.
    """

    source: Source
    launch: Launch
    base_launch: Launch
    tuned_parameters: frozenset[str]
    options: Config
    dtype: str | None
    shape: Mapping[str, int]
    stage: str
    # The configuration's, and the matrix's in the place of some of them.
    constants: Config = field(default_factory=dict)
    configs: tuple[Config, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    @property
    def is_widened(self) -> bool:
        """True for a configuration that the launch does not have itself."""
        return _is_widened(self.source, self.base_launch, self.constants, self.options)

    def tuned_constants(self) -> Config:
        """Return the constants that the autotuner supplies."""
        constants = {}
        for name in self.tuned_parameters:
            if name in self.launch.args:
                constants[name] = self.launch.args[name]["constexpr"]
        return constants

    def launch_settings(self) -> LaunchSettings:
        """Return the job as a candidate of `--configs edges`."""
        is_made_up = self.source.kernel.is_made_up
        constants = self.tuned_constants()
        return LaunchSettings(self.base_launch.args, self.options, constants, is_made_up)

    def cell(self, target: str, toolchain: str, until: str | None) -> Cell:
        family = family_of(toolchain)
        alternatives = []
        for each in self.alternatives:
            alternatives.append(replace(each, options=family.options(each.options)))
        return Cell(
            kernel=self.source.kernel,
            toolchain=toolchain,
            target=target,
            launch=self.launch,
            options=family.options(self.options),
            dtype=self.dtype,
            shape=self.shape,
            is_widened=self.is_widened,
            stage=self.stage,
            until=until,
            configs=self.configs,
            alternatives=tuple(alternatives),
        )


@dataclass(frozen=True)
class Configuration:
    """One configuration of a launch on a place.

    `launch` leaves out the configuration's constants, `tuned_parameters` are their names;
    configurations of one launch differ in `settings`.
    """

    place: tuple[str, str]
    kernel: Kernel
    launch: Launch
    tuned_parameters: frozenset[str]
    settings: str


Resolve = Callable[[str], Sequence[str]]


def last_part(name: str) -> str:
    """Return `chunk_fwd_o` for `retention.chunk_fwd_o` or `fla.ops.common:chunk_fwd_o`."""
    return name.replace(":", ".").rpartition(".")[2]


def matches_kernel(globs: Iterable[str], name: str) -> bool:
    """Return True if a glob matches a kernel's whole name or its last part."""
    last = last_part(name)
    return any(fnmatchcase(name, glob) or fnmatchcase(last, glob) for glob in globs)


def check_kernels(
    globs: Sequence[str], kernels: Iterable[str], listing: str = "flacheck list kernels"
) -> None:
    """Raise UsageError for a glob that does not match any kernel.

    The hint is the nearest names, else the command that lists all.
    """
    names = sorted(set(kernels))
    for glob in globs:
        if any(matches_kernel([glob], name) for name in names):
            continue
        # Three names at the most, half alike: more do not help in a message.
        last_parts = list(map(last_part, names))
        near = difflib.get_close_matches(glob, names + last_parts, 3, 0.5)
        hint = f"`{listing}` lists the kernels"
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        raise UsageError(f"no kernel matches {glob!r}; {hint}")


@dataclass(frozen=True)
class _Product:
    """A matrix's block with its jobs and toolchains."""

    jobs: Sequence[_Job]
    axes: Axes
    toolchains: Sequence[str]


def expand(
    matrix: Matrix,
    sources: Sequence[Source],
    selection: Selection,
    resolve: Resolve,
    until: str | None = None,
) -> Iterator[Cell]:
    """Yield every cell once, ordered by toolchain and target, so that workers stay warm."""
    check_kernels(selection.kernels, (source.kernel.name for source in sources))
    _check_defines(selection)
    products = _products(matrix, sources, selection, resolve)
    yield from _cells(products, matrix, resolve, until)


def expand_edges(
    matrix: Matrix,
    usual_sources: Sequence[Source],
    sources: Sequence[Source],
    selection: Selection,
    resolve: Resolve,
    until: str | None = None,
) -> Iterator[Cell]:
    """Yield the usual cells, and the few others that find most failures of all of them.

    Args:
        matrix: The matrix of recorded launches.
        usual_sources: The kernels with one launch of each dtype.
        sources: The kernels with all their launches.
        selection: The user's selection.
        resolve: Resolves the names of toolchains.
        until: The last stage to run.
    """
    usual_matrix, own_matrix = matrix.with_configs("usual"), matrix.with_configs("own")
    all_usual = _products(usual_matrix, usual_sources, selection, resolve)
    all_own = _products(own_matrix, sources, selection, resolve)
    products = []
    for usual, own in zip(all_usual, all_own):
        jobs = [*usual.jobs, *_choose_edges(usual.jobs, own.jobs)]
        products.append(replace(own, jobs=jobs))
    yield from _cells(products, matrix, resolve, until)


def _cells(
    products: Sequence[_Product], matrix: Matrix, resolve: Resolve, until: str | None
) -> Iterator[Cell]:
    """Yield the cells of products, each once."""
    keys = set()
    for toolchain, target, job in _placed(products):
        cell = job.cell(target, toolchain, until)
        if cell.key in keys or _is_excluded(cell, matrix, resolve):
            continue
        keys.add(cell.key)
        yield cell


def count_configurations(
    matrix: Matrix, sources: Sequence[Source], selection: Selection, resolve: Resolve
) -> int:
    """Return the number of configurations of all launches on each toolchain and target."""
    products = _products(matrix.with_configs("own"), sources, selection, resolve)
    return sum(len(product.jobs) for product in products)


def list_configurations(
    matrix: Matrix, sources: Sequence[Source], selection: Selection, resolve: Resolve
) -> Iterator[Configuration]:
    """Yield every configuration of every launch, even if the matrix selects fewer."""
    products = _products(matrix.with_configs("own"), sources, selection, resolve)
    for toolchain, target, job in _placed(products):
        if job.stage != "compile":
            continue
        names = job.tuned_parameters
        constants = [job.launch.args.get(name) for name in sorted(names)]
        settings = repr((constants, sorted(job.options.items())))
        yield Configuration(
            (toolchain, target), job.source.kernel, job.base_launch, names, settings
        )


def tuned_names(configs: Sequence[Config]) -> frozenset[str]:
    """Return the parameters that an autotuner's configurations supply."""
    names: set[str] = set()
    for config in configs:
        names.update(config.get("kwargs", ()))
    return frozenset(names)


def _choose_edges(usual_jobs: Sequence[_Job], own_jobs: Sequence[_Job]) -> Iterator[_Job]:
    """Yield the jobs that `edges` adds to the usual ones, each with its launch's others."""
    usual_groups = _by_kernel(usual_jobs)
    own_groups = _by_kernel(own_jobs)
    groups = []
    for group, jobs in own_groups.items():
        usual = [job.launch_settings() for job in usual_groups.get(group, ())]
        candidates = [job.launch_settings() for job in jobs]
        groups.append(edges.Group(usual, candidates))
    for jobs, indices in zip(own_groups.values(), edges.choose(groups)):
        for index in indices:
            choice = jobs[index]
            siblings = [job for job in jobs if job.base_launch is choice.base_launch]
            yield _with_alternatives(choice, siblings)


def _by_kernel(jobs: Iterable[_Job]) -> dict[tuple[str, str | None], list[_Job]]:
    """Return jobs by kernel and dtype."""
    groups: dict[tuple[str, str | None], list[_Job]] = {}
    for job in jobs:
        groups.setdefault((job.source.kernel.name, job.dtype), []).append(job)
    return groups


def _with_alternatives(job: _Job, siblings: Sequence[_Job]) -> _Job:
    """Return a job with the other configurations of its launch, the least demanding first.

    A launch with invented arguments has none, as in `_compile_jobs`.
    """
    if job.source.kernel.is_made_up:
        return job
    own = job.tuned_constants()
    others = []
    for sibling in siblings:
        constants = sibling.tuned_constants()
        if sibling is not job and sibling.shape == job.shape and constants.keys() == own.keys():
            others.append(Alternative(constants, sibling.options, sibling.is_widened))
    others.sort(key=lambda other: demand({"kwargs": other.constants, **other.options}))
    return replace(job, alternatives=tuple(others))


def _placed(products: Sequence[_Product]) -> Iterator[tuple[str, str, _Job]]:
    """Yield (toolchain, target, job), ordered by toolchain and target."""
    toolchains: dict[str, None] = {}
    for product in products:
        toolchains.update(dict.fromkeys(product.toolchains))
    for toolchain in toolchains:
        family = family_of(toolchain)
        for product in products:
            if toolchain not in product.toolchains:
                continue
            targets = _targets(product.axes, family)
            for target, job in itertools.product(targets, product.jobs):
                if _language(job.source) == family.language:
                    yield toolchain, target, job


def _products(
    matrix: Matrix,
    sources: Sequence[Source],
    selection: Selection,
    resolve: Resolve,
) -> list[_Product]:
    products = []
    for block in matrix.blocks:
        axes = selection.replaces(block.axes)
        toolchains: list[str] = []
        for spec in axes.get("toolchain", (DEFAULT_SPEC,)):
            toolchains += resolve(spec)
        # Kernels of another language have other axes, which a block does not contain.
        languages = {family_of(name).language for name in toolchains}
        jobs: list[_Job] = []
        for source in sources:
            if _language(source) in languages and _is_selected(source.kernel, axes, selection):
                jobs += _jobs(matrix, source, axes, selection)
        products.append(_Product(jobs, axes, toolchains))
    return products


def _language(source: Source) -> str:
    return source.kernel.language


def _check_defines(selection: Selection) -> None:
    language = language_of(selection.toolchains)
    if selection.defines and selection.toolchains and language != "cuda":
        raise UsageError(
            "--define sets macros of CUDA C++ units; constants of Triton's kernels are the axis "
            "`constants` of a matrix"
        )


def _targets(axes: Axes, family: Family) -> list[str]:
    return [family.target(str(name)) for name in axes.get("target", DEFAULT_TARGETS)]


def _is_selected(kernel: Kernel, axes: Axes, selection: Selection) -> bool:
    if not matches_kernel(axes.get("kernel", ("*",)), kernel.name):
        return False
    if not selection.names(kernel.name):
        return False
    return _matches_package(axes.get("package", ("*",)), kernel)


def _matches_package(globs: Iterable[str], kernel: Kernel) -> bool:
    return any(fnmatchcase(kernel.package or "", glob) for glob in globs)


def _jobs(matrix: Matrix, source: Source, axes: Axes, selection: Selection) -> Iterator[_Job]:
    stages = axes.get("stage", ("compile",))
    for stage, own in itertools.product(stages, source.launches):
        dtypes = _dtypes(own, axes, selection)
        for dtype, shape in itertools.product(dtypes, _shapes(axes, source)):
            launch = _fill_in(matrix, source.kernel.name, own, dtype, shape)
            if stage != "autotune":
                yield from _compile_jobs(source, launch, dtype, shape, stage, axes, selection)
            elif launch.configs and not any(selection.options().values()):
                yield _Job(source, launch, launch, frozenset(), {}, dtype, shape, stage)


def _compile_jobs(
    source: Source,
    launch: Launch,
    dtype: str | None,
    shape: Mapping[str, int],
    stage: str,
    axes: Axes,
    selection: Selection,
) -> Iterator[_Job]:
    # Once for all of a launch's configurations: the names in a hundred take a while.
    tuned_parameters = tuned_names(launch.configs)
    configs = list(choices(launch, axes, selection.options()))
    for changes, config in itertools.product(axes.get("constants", ({},)), configs):
        constants = {**config.constants, **changes}
        alternatives = []
        # A made-up launch that does not fit is too large. Alternatives would take minutes each,
        # and would not test it either.
        if not source.kernel.is_made_up:
            for tuned, options in config.others:
                others = {**tuned, **changes}
                is_widened = _is_widened(source, launch, others, options)
                alternatives.append(Alternative(others, options, is_widened))
        yield _Job(
            source=source,
            launch=launch.with_constants(constants),
            base_launch=launch,
            tuned_parameters=tuned_parameters,
            options=config.options,
            dtype=dtype,
            # A matrix may give another value to a macro that a shape fills in.
            shape={name: changes.get(name, value) for name, value in shape.items()},
            stage=stage,
            constants=constants,
            configs=launch.configs,
            alternatives=tuple(alternatives),
        )


def _dtypes(launch: Launch, axes: Axes, selection: Selection) -> Sequence[str | None]:
    """Return the axis's dtypes for a declared launch, the own dtype for a recorded one.

    A recorded launch has none if the selection contains other dtypes only.
    """
    if launch.names_dtype:
        return axes.get("dtype", DEFAULT_DTYPES)
    if selection.dtypes and launch.dtype not in selection.dtypes:
        return ()
    return (launch.dtype,)


def _shapes(axes: Axes, source: Source) -> list[Mapping[str, int]]:
    shapes: list[Mapping[str, int]] = []
    for item in axes.get("shape", ("own",)):
        if item == "own":
            shapes += source.shapes or ({},)
        else:
            shapes.append(item)
    return shapes


def _fill_in(
    matrix: Matrix, kernel: str, launch: Launch, dtype: str | None, shape: Mapping[str, int]
) -> Launch:
    """Return the launch with a dtype and a shape in place of `"{dtype}"` and `"{T}"`."""
    values: dict[str, Any] = dict(shape)
    if dtype:
        values["dtype"] = dtype
    try:
        return launch.filled_in(values)
    except KeyError as error:
        name = f"{{{error.args[0]}}}"
        raise UsageError(
            f"{matrix.file}: {kernel}: {name} is not a name of the shape {dict(shape)}"
        ) from None


def _is_widened(source: Source, launch: Launch, constants: Config, options: Config) -> bool:
    """Return True for a configuration that the launch does not have itself.

    It has other constants, macros that a unit's build does not define, or num_warps that the
    launch's autotuner never tries.
    """
    if _language(source) == "cuda" and not constants.keys() <= launch.args.keys():
        return True
    for name, value in constants.items():
        if name in launch.args and launch.args[name] != {"constexpr": value}:
            return True
    if not launch.configs:
        return False
    return not any(is_config(config, constants, options) for config in launch.configs)


def _is_excluded(cell: Cell, matrix: Matrix, resolve: Resolve) -> bool:
    """Return True for a cell that matches every axis of an entry of `exclude`."""
    for entry in matrix.exclude:
        if all(_matches(axis, values, cell, resolve) for axis, values in entry.items()):
            return True
    return False


def _matches(axis: str, values: tuple[Any, ...], cell: Cell, resolve: Resolve) -> bool:
    match axis:
        case "kernel":
            return matches_kernel(values, cell.kernel.name)
        case "package":
            return _matches_package(values, cell.kernel)
        case "toolchain":
            return any(cell.toolchain in resolve(spec) for spec in values)
        case "shape" | "options":
            own: Config = getattr(cell, axis)
            return any(_contains(own, value) for value in values)
        case "dtype" | "target" | "stage":
            return getattr(cell, axis) in values
    return cell.options.get(axis) in values


def _contains(own: Config, part: Config) -> bool:
    return all(own.get(name) == value for name, value in part.items())
