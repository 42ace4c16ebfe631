"""From a matrix and a selection to cells. Pure: kernels and toolchains are given, nothing is
imported or installed."""

import difflib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from flacheck.errors import UsageError
from flacheck.inputs.given_values import combinations
from flacheck.inputs.matrix import Axes, Matrix
from flacheck.model import Cell, Kernel, Launch, canonical
from flacheck.toolchains import family_of, language_of
from flacheck.toolchains.base import Family

# A100 and H100: what most users train on.
DEFAULT_TARGETS = ("sm80", "sm90")
DEFAULT_DTYPES = ("bf16", "fp16", "fp32")
# Triton's own default, and what nearly every kernel runs with.
_USUAL_WARPS = 4

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """A kernel with what it declares: its launches, with their autotuner's configurations and keys,
    and the shapes to launch it in."""

    kernel: Kernel
    launches: tuple[Launch, ...]
    shapes: tuple[Mapping[str, int], ...] = ()


@dataclass(frozen=True)
class Selection:
    """What the user asked for on the command line; an empty field leaves the matrix as it is."""

    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    num_warps: tuple[int, ...] = ()
    num_stages: tuple[int, ...] = ()
    toolchains: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    # `NAME=VALUE` each: macros of CUDA units, and options of a compiler by their names.
    defines: tuple[str, ...] = ()
    options_given: tuple[str, ...] = ()

    def to_json(self) -> dict[str, list[str | int]]:
        """What is selected at all."""
        return {name: list(values) for name, values in vars(self).items() if values}

    def replaces(self, axes: Axes) -> Axes:
        """A block's axes with the selection in place of the matrix's own."""
        chosen: dict[str, tuple[Any, ...]] = {
            "target": self.targets,
            "dtype": self.dtypes,
            "toolchain": self.toolchains,
        }
        if self.defines:
            chosen["constants"] = combinations("--define", self.defines)
        if self.options_given:
            chosen["options"] = combinations("--option", self.options_given)
        chosen.update({axis: values for axis, values in self.options().items() if axis in axes})
        return {**axes, **{axis: values for axis, values in chosen.items() if values}}

    def options(self) -> dict[str, tuple[int, ...]]:
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}

    def names(self, kernel: str) -> bool:
        """Whether the selection leaves a kernel in."""
        return any(named(glob, kernel) for glob in self.kernels or ("*",))


@dataclass(frozen=True)
class _Job:
    """All of a cell but its target and toolchain."""

    source: Source
    launch: Launch
    options: Config
    dtype: str | None
    shape: Mapping[str, int]
    stage: str
    widened: bool = False
    configs: tuple[Config, ...] = ()

    def cell(self, target: str, toolchain: str, until: str | None) -> Cell:
        return Cell(
            kernel=self.source.kernel,
            toolchain=toolchain,
            target=target,
            launch=self.launch,
            options=family_of(toolchain).options(self.options),
            dtype=self.dtype,
            shape=self.shape,
            widened=self.widened,
            stage=self.stage,
            until=until,
            configs=self.configs,
        )


Resolve = Callable[[str], Sequence[str]]


def last_part(name: str) -> str:
    """`chunk_fwd_o` of `retention.chunk_fwd_o` or of `fla.ops.common:chunk_fwd_o`."""
    return name.replace(":", ".").rpartition(".")[2]


def named(glob: str, name: str) -> bool:
    """Whether a glob matches a kernel's whole name or its last part."""
    return fnmatchcase(name, glob) or fnmatchcase(last_part(name), glob)


def check_kernels(globs: Sequence[str], known: Iterable[str]) -> None:
    """Raises UsageError for a glob that no known kernel matches."""
    names = sorted(set(known))
    for glob in globs:
        if any(named(glob, name) for name in names):
            continue
        # Three names at the most, half alike: more is no help in a message.
        near = difflib.get_close_matches(glob, names + [last_part(name) for name in names], 3, 0.5)
        hint = "see `flacheck list kernels`"
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        raise UsageError(f"no kernel matches {glob!r}; {hint}")


def expand(
    matrix: Matrix,
    sources: Sequence[Source],
    selection: Selection,
    resolve: Resolve,
    until: str | None = None,
) -> Iterator[Cell]:
    """Every cell once: toolchain by toolchain, target by target, so that workers stay warm."""
    check_kernels(selection.kernels, (source.kernel.name for source in sources))
    _check_defines(selection)
    products = []
    for block in matrix.blocks:
        axes = selection.replaces(block.axes)
        # Kernels of another language have other axes, which a block says nothing of.
        languages = {family_of(name).language for spec in _specs(axes) for name in resolve(spec)}
        spoken = [source for source in sources if source.kernel.language in languages]
        asked = [source for source in spoken if _asked(source.kernel, axes, selection)]
        jobs = [job for source in asked for job in _jobs(matrix, source, axes, selection)]
        products.append((jobs, axes))
    toolchains = dict.fromkeys(
        name for _, axes in products for spec in _specs(axes) for name in resolve(spec)
    )
    seen = set()
    for toolchain in toolchains:
        for jobs, axes in products:
            if not any(toolchain in resolve(spec) for spec in _specs(axes)):
                continue
            family = family_of(toolchain)
            own = [job for job in jobs if job.source.kernel.language == family.language]
            for target, job in itertools.product(_targets(axes, family), own):
                cell = job.cell(target, toolchain, until)
                excluded = any(
                    all(_matches(axis, values, cell, resolve) for axis, values in entry.items())
                    for entry in matrix.exclude
                )
                if not excluded and cell.key not in seen:
                    seen.add(cell.key)
                    yield cell


def _check_defines(selection: Selection) -> None:
    language = language_of(selection.toolchains)
    if selection.defines and selection.toolchains and language != "cuda":
        raise UsageError(
            "--define sets macros of CUDA C++ units; constants of Triton's kernels are the axis "
            "`constants` of a matrix"
        )


def _specs(axes: Axes) -> tuple[str, ...]:
    return axes.get("toolchain", ("installed",))


def _targets(axes: Axes, family: Family) -> list[str]:
    return [family.target(str(name)) for name in axes.get("target", DEFAULT_TARGETS)]


def _asked(kernel: Kernel, axes: Axes, selection: Selection) -> bool:
    if not any(named(glob, kernel.name) for glob in axes.get("kernel", ("*",))):
        return False
    packages = axes.get("package", ("*",))
    of_package = any(fnmatchcase(kernel.package or "", glob) for glob in packages)
    return of_package and selection.names(kernel.name)


def _jobs(matrix: Matrix, source: Source, axes: Axes, selection: Selection) -> Iterator[_Job]:
    stages = axes.get("stage", ("compile",))
    for stage, declared in itertools.product(stages, source.launches):
        dtypes = _dtypes(declared, axes, selection)
        for dtype, shape in itertools.product(dtypes, _shapes(axes, source)):
            launch = _filled_in(matrix, source.kernel.name, declared, dtype, shape)
            if stage == "autotune":
                if launch.configs and not any(selection.options().values()):
                    yield _Job(source, launch, {}, dtype, shape, stage)
                continue
            choices = _options(launch, axes, selection)
            constants = axes.get("constants", ({},))
            for changed, (tuned, options) in itertools.product(constants, choices):
                chosen = {**tuned, **changed}
                widened = _is_widened(launch, chosen, options)
                widened = widened or _adds_macros(source, launch, changed)
                tried = filled(launch, chosen)
                # A macro that a shape fills in may be given another value.
                size = {name: changed.get(name, value) for name, value in shape.items()}
                configs = launch.configs
                yield _Job(source, tried, options, dtype, size, stage, widened, configs)


def _dtypes(launch: Launch, axes: Axes, selection: Selection) -> Sequence[str | None]:
    """Those of the axis for a declared launch; its own for a recorded one, if the selection asks
    for it."""
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


def _filled_in(
    matrix: Matrix, kernel: str, launch: Launch, dtype: str | None, shape: Mapping[str, int]
) -> Launch:
    """The launch with a dtype and a shape in place of `"{dtype}"` and names such as `"{T}"`."""
    values: dict[str, Any] = dict(shape)
    if dtype:
        values["dtype"] = dtype
    try:
        return launch.filled_in(values)
    except KeyError as error:
        name = f"{{{error.args[0]}}}"
        raise UsageError(
            f"{matrix.file}: {kernel}: {name} is no name of the shape {dict(shape)}"
        ) from None


def _options(launch: Launch, axes: Axes, selection: Selection) -> Iterator[tuple[Config, Config]]:
    """(constants, options) of each configuration to compile."""
    explicit = any(axis in axes for axis in ("num_warps", "num_stages"))
    if launch.configs and not explicit:
        which = axes.get("configs", ("own",))[0]
        yield from _own_configs(_chosen(launch.configs, which), axes, selection)
        return
    if not explicit:
        chosen = {axis: values for axis, values in selection.options().items() if values}
        axes = {**axes, **chosen}
    # Configurations that differ in options alone share their constants.
    tuned = [dict(config.get("kwargs", {})) for config in launch.configs] or [{}]
    distinct = {canonical(constants): constants for constants in tuned}
    yield from itertools.product(distinct.values(), _option_sets(axes))


def _chosen(configs: Sequence[Config], which: str) -> Sequence[Config]:
    # Which launches of a kernel and dtype these are of was chosen before.
    if which in ("usual", "shared"):
        return (min(configs, key=_oddity),)
    if which == "first":
        return configs[:1]
    return configs


def _oddity(config: Config) -> tuple[float, ...]:
    """How far a configuration is from what a kernel runs with anywhere: four warps, the smallest
    tile, few stages."""
    warps = math.log2(config.get("num_warps", _USUAL_WARPS) / _USUAL_WARPS)
    sizes = [value for value in config.get("kwargs", {}).values() if isinstance(value, int)]
    tile = math.prod(size for size in sizes if size > 0)
    return abs(warps), -warps, tile, config.get("num_stages", 0)


def _option_sets(axes: Axes) -> list[dict[str, Any]]:
    names = [axis for axis in ("num_warps", "num_stages") if axis in axes]
    values = itertools.product(*(axes[axis] for axis in names))
    combined = [dict(zip(names, combination)) for combination in values]
    return [{**extra, **options} for extra in axes.get("options", ({},)) for options in combined]


def _own_configs(
    configs: Sequence[Config], axes: Axes, selection: Selection
) -> Iterator[tuple[Config, Config]]:
    """The autotune list; a selection of num_warps or num_stages replaces theirs."""
    replaced = _option_sets({name: v for name, v in selection.options().items() if v})
    for config, chosen in itertools.product(configs, replaced):
        asked = {**config, **chosen}
        constants = dict(asked.pop("kwargs", {}))
        options = {name: value for name, value in asked.items() if value is not None}
        for extra in axes.get("options", ({},)):
            yield constants, {**options, **extra}


def _is_widened(launch: Launch, constants: Config, options: Config) -> bool:
    """Whether a configuration is none of the launch's own: other constants, or num_warps that its
    autotuner never tries."""
    for name, value in constants.items():
        if name in launch.args and launch.args[name] != {"constexpr": value}:
            return True
    if not launch.configs:
        return False
    return not any(_is_config(config, constants, options) for config in launch.configs)


def _adds_macros(source: Source, launch: Launch, changed: Config) -> bool:
    """Whether a unit is compiled with macros that its build does not define."""
    return source.kernel.language == "cuda" and any(name not in launch.args for name in changed)


def _is_config(config: Config, constants: Config, options: Config) -> bool:
    tuned = config.get("kwargs", {})
    same = all(constants.get(name) == value for name, value in tuned.items())
    others = {name: value for name, value in config.items() if name != "kwargs"}
    return same and all(value == options.get(name, value) for name, value in others.items())


def filled(launch: Launch, constants: Config) -> Launch:
    """The launch with tuned constants in it; what heuristics supply stays omitted."""
    tuned = {name: {"constexpr": value} for name, value in constants.items()}
    return replace(
        launch,
        args={**launch.args, **tuned},
        omitted=tuple(name for name in launch.omitted if name not in constants),
        configs=(),
        keys=(),
    )


def _matches(axis: str, values: tuple[Any, ...], cell: Cell, resolve: Resolve) -> bool:
    if axis == "kernel":
        return any(named(glob, cell.kernel.name) for glob in values)
    if axis == "package":
        return any(fnmatchcase(cell.kernel.package or "", glob) for glob in values)
    if axis == "toolchain":
        return any(cell.toolchain in resolve(spec) for spec in values)
    if axis in ("shape", "options"):
        held: Config = getattr(cell, axis)
        return any(all(held.get(k) == v for k, v in value.items()) for value in values)
    own = {"dtype": cell.dtype, "target": cell.target, "stage": cell.stage}
    return own.get(axis, cell.options.get(axis)) in values
