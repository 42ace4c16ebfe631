"""The expansion of a matrix and a selection to cells.

The caller supplies kernels and toolchains; nothing is imported or installed.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

from flacheck.errors import UsageError
from flacheck.model import Alternative, Cell, Kernel, Launch
from flacheck.subjects.inputs import edges
from flacheck.subjects.inputs.configurations import ChosenConfig, Config, choices, demand, is_config
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
    """

    source: Source
    launch: Launch
    base_launch: Launch
    options: Config
    dtype: str | None
    shape: Mapping[str, int]
    stage: str
    is_widened: bool = False
    configs: tuple[Config, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    def tuned_constants(self, names: Collection[str]) -> Config:
        """Return the constants of these names, which the autotuner supplies."""
        constants = {}
        for name in names:
            if name in self.launch.args:
                constants[name] = self.launch.args[name]["constexpr"]
        return constants

    def launch_settings(self, tuned_parameters: Collection[str]) -> LaunchSettings:
        """Return the job as a candidate of `--configs edges`."""
        constants = self.tuned_constants(tuned_parameters)
        is_made_up = self.source.kernel.is_made_up
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
class _Setting:
    """One configuration of a launch, without what only a compile needs."""

    source: Source
    launch: Launch
    stage: str
    tuned_parameters: frozenset[str]
    constants: Config
    options: Config


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


_Item = TypeVar("_Item", _Job, _Setting)
# Makes the items of a source's launches.
_Expansion = Callable[[Matrix, Source, Axes, Selection], Iterator[_Item]]


@dataclass(frozen=True)
class _Product(Generic[_Item]):
    """A matrix's block with its jobs, or only their settings, and toolchains."""

    items: Sequence[_Item]
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
    products = _products(matrix, sources, selection, resolve, _jobs)
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
    all_usual = _products(usual_matrix, usual_sources, selection, resolve, _jobs)
    all_own = _products(own_matrix, sources, selection, resolve, _jobs)
    products = []
    for usual, own in zip(all_usual, all_own):
        jobs = [*usual.items, *_choose_edges(usual.items, own.items)]
        products.append(replace(own, items=jobs))
    yield from _cells(products, matrix, resolve, until)


def _cells(
    products: Sequence[_Product[_Job]], matrix: Matrix, resolve: Resolve, until: str | None
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
    products = _products(matrix.with_configs("own"), sources, selection, resolve, _settings)
    return sum(len(product.items) for product in products)


def list_configurations(
    matrix: Matrix, sources: Sequence[Source], selection: Selection, resolve: Resolve
) -> Iterator[Configuration]:
    """Yield every configuration of every launch, even if the matrix selects fewer.

    No job or cell is made: 100,000 take seconds.
    """
    products = _products(matrix.with_configs("own"), sources, selection, resolve, _settings)
    for toolchain, target, each in _placed(products):
        if each.stage != "compile":
            continue
        names = each.tuned_parameters
        constants = {**each.launch.args}
        for name, value in each.constants.items():
            constants[name] = {"constexpr": value}
        settings = repr(
            ([constants.get(name) for name in sorted(names)], sorted(each.options.items()))
        )
        yield Configuration((toolchain, target), each.source.kernel, each.launch, names, settings)


def tuned_names(configs: Sequence[Config]) -> frozenset[str]:
    """Return the parameters that an autotuner's configurations supply."""
    names: set[str] = set()
    for config in configs:
        names.update(config.get("kwargs", ()))
    return frozenset(names)


def _choose_edges(usual_jobs: Sequence[_Job], own_jobs: Sequence[_Job]) -> Iterator[_Job]:
    """Yield the jobs that `edges` adds to the usual ones, each with its launch's others."""
    usual_groups = _by_kernel(usual_jobs)
    # Configurations of a launch share the object; the names in a hundred of them take a while.
    parameters: dict[int, frozenset[str]] = {}
    for job in own_jobs:
        if id(job.base_launch) not in parameters:
            parameters[id(job.base_launch)] = tuned_names(job.configs)
    own_groups = _by_kernel(own_jobs)
    groups = []
    for group, jobs in own_groups.items():
        usual = []
        for job in usual_groups.get(group, ()):
            usual.append(job.launch_settings(tuned_names(job.configs)))
        candidates = [job.launch_settings(parameters[id(job.base_launch)]) for job in jobs]
        groups.append(edges.Group(usual, candidates))
    for jobs, indices in zip(own_groups.values(), edges.choose(groups)):
        for index in indices:
            choice = jobs[index]
            siblings = [job for job in jobs if job.base_launch is choice.base_launch]
            yield _with_alternatives(choice, siblings, parameters[id(choice.base_launch)])


def _by_kernel(jobs: Iterable[_Job]) -> dict[tuple[str, str | None], list[_Job]]:
    """Return jobs by kernel and dtype."""
    groups: dict[tuple[str, str | None], list[_Job]] = {}
    for job in jobs:
        groups.setdefault((job.source.kernel.name, job.dtype), []).append(job)
    return groups


def _with_alternatives(job: _Job, siblings: Sequence[_Job], parameters: frozenset[str]) -> _Job:
    """Return a job with the other configurations of its launch, the least demanding first.

    A launch with invented arguments has none, as in `_compile_jobs`.
    """
    if job.source.kernel.is_made_up:
        return job
    own = job.tuned_constants(parameters)
    others = []
    for sibling in siblings:
        constants = sibling.tuned_constants(parameters)
        if sibling is not job and sibling.shape == job.shape and constants.keys() == own.keys():
            others.append(Alternative(constants, sibling.options, sibling.is_widened))
    others.sort(key=lambda other: demand({"kwargs": other.constants, **other.options}))
    return replace(job, alternatives=tuple(others))


def _placed(products: Sequence[_Product[_Item]]) -> Iterator[tuple[str, str, _Item]]:
    """Yield (toolchain, target, item), ordered by toolchain and target."""
    toolchains: dict[str, None] = {}
    for product in products:
        toolchains.update(dict.fromkeys(product.toolchains))
    for toolchain in toolchains:
        family = family_of(toolchain)
        for product in products:
            if toolchain not in product.toolchains:
                continue
            targets = _targets(product.axes, family)
            for target, item in itertools.product(targets, product.items):
                if _language(item.source) == family.language:
                    yield toolchain, target, item


def _products(
    matrix: Matrix,
    sources: Sequence[Source],
    selection: Selection,
    resolve: Resolve,
    expansion: _Expansion[_Item],
) -> list[_Product[_Item]]:
    products = []
    for block in matrix.blocks:
        axes = selection.replaces(block.axes)
        toolchains: list[str] = []
        for spec in axes.get("toolchain", (DEFAULT_SPEC,)):
            toolchains += resolve(spec)
        # Kernels of another language have other axes, which a block does not contain.
        languages = {family_of(name).language for name in toolchains}
        items: list[_Item] = []
        for source in sources:
            if _language(source) in languages and _is_selected(source.kernel, axes, selection):
                items += expansion(matrix, source, axes, selection)
        products.append(_Product(items, axes, toolchains))
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
    for stage, launch, dtype, shape in _launches(matrix, source, axes, selection):
        if stage == "autotune":
            yield _Job(source, launch, launch, {}, dtype, shape, stage)
        else:
            yield from _compile_jobs(source, launch, dtype, shape, stage, axes, selection)


def _settings(
    matrix: Matrix, source: Source, axes: Axes, selection: Selection
) -> Iterator[_Setting]:
    for stage, launch, _, _ in _launches(matrix, source, axes, selection):
        names = tuned_names(launch.configs)
        if stage == "autotune":
            yield _Setting(source, launch, stage, names, {}, {})
            continue
        for changes, config in _choices(launch, axes, selection):
            constants = {**config.constants, **changes}
            yield _Setting(source, launch, stage, names, constants, config.options)


def _launches(
    matrix: Matrix, source: Source, axes: Axes, selection: Selection
) -> Iterator[tuple[str, Launch, str | None, Mapping[str, int]]]:
    """Yield (stage, launch, dtype, shape) of each launch to expand."""
    stages = axes.get("stage", ("compile",))
    for stage, own in itertools.product(stages, source.launches):
        dtypes = _dtypes(own, axes, selection)
        for dtype, shape in itertools.product(dtypes, _shapes(axes, source)):
            launch = _fill_in(matrix, source.kernel.name, own, dtype, shape)
            is_tuned = launch.configs and not any(selection.options().values())
            if stage != "autotune" or is_tuned:
                yield stage, launch, dtype, shape


def _choices(
    launch: Launch, axes: Axes, selection: Selection
) -> Iterator[tuple[Config, ChosenConfig]]:
    """Yield each set of a matrix's changed constants with each configuration."""
    configs = list(choices(launch, axes, selection.options()))
    yield from itertools.product(axes.get("constants", ({},)), configs)


def _compile_jobs(
    source: Source,
    launch: Launch,
    dtype: str | None,
    shape: Mapping[str, int],
    stage: str,
    axes: Axes,
    selection: Selection,
) -> Iterator[_Job]:
    for changes, config in _choices(launch, axes, selection):
        alternative = _change(source, launch, (config.constants, config.options), changes)
        others = []
        # A made-up launch that does not fit is too large. Alternatives would take minutes each,
        # and would not test it either.
        if not source.kernel.is_made_up:
            for other in config.others:
                others.append(_change(source, launch, other, changes))
        # A matrix may give another value to a macro that a shape fills in.
        size = {name: changes.get(name, value) for name, value in shape.items()}
        yield _Job(
            source=source,
            launch=launch.with_constants(alternative.constants),
            base_launch=launch,
            options=alternative.options,
            dtype=dtype,
            shape=size,
            stage=stage,
            is_widened=alternative.is_widened,
            configs=launch.configs,
            alternatives=tuple(others),
        )


def _change(
    source: Source, launch: Launch, settings: tuple[Config, Config], changes: Config
) -> Alternative:
    """Return a configuration with a matrix's constants in place of some of its own."""
    tuned, options = settings
    constants = {**tuned, **changes}
    is_widened = _is_widened(launch, constants, options) or _adds_macros(source, launch, changes)
    return Alternative(constants, options, is_widened)


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


def _is_widened(launch: Launch, constants: Config, options: Config) -> bool:
    """Return True for a configuration that the launch does not have itself.

    It has other constants, or num_warps that the launch's autotuner never tries.
    """
    for name, value in constants.items():
        if name in launch.args and launch.args[name] != {"constexpr": value}:
            return True
    if not launch.configs:
        return False
    return not any(is_config(config, constants, options) for config in launch.configs)


def _adds_macros(source: Source, launch: Launch, changes: Config) -> bool:
    """Return True for a unit that is compiled with macros that its build does not define."""
    is_cuda = _language(source) == "cuda"
    return is_cuda and not changes.keys() <= launch.args.keys()


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
