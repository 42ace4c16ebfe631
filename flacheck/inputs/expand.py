"""From a matrix and a selection to cells. Pure: kernels and toolchains are given, nothing is
imported or installed."""

import difflib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from flacheck.errors import UsageError
from flacheck.inputs.configurations import Config, choices, is_config
from flacheck.inputs.key_value_options import combinations
from flacheck.inputs.matrix import Axes, Matrix
from flacheck.model import Alternative, Cell, Kernel, Launch
from flacheck.toolchains import family_of, language_of
from flacheck.toolchains.base import Family

# A100 and H100: what most users train on.
DEFAULT_TARGETS = ("sm80", "sm90")
DEFAULT_DTYPES = ("bf16", "fp16", "fp32")


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
    is_widened: bool = False
    configs: tuple[Config, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    def cell(self, target: str, toolchain: str, until: str | None) -> Cell:
        family = family_of(toolchain)
        alternatives = (
            replace(each, options=family.options(each.options)) for each in self.alternatives
        )
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
            constants = axes.get("constants", ({},))
            chosen = list(choices(launch, axes, selection.options()))
            for changed, choice in itertools.product(constants, chosen):
                asked = _changed(source, launch, (choice.constants, choice.options), changed)
                besides = choice.others
                if source.kernel.is_made_up:
                    # What does not fit was made up too large: its alternatives take minutes each,
                    # and leave it as untested as it is.
                    besides = ()
                others = (_changed(source, launch, other, changed) for other in besides)
                # A macro that a shape fills in may be given another value.
                size = {name: changed.get(name, value) for name, value in shape.items()}
                yield _Job(
                    source=source,
                    launch=launch.with_constants(asked.constants),
                    options=asked.options,
                    dtype=dtype,
                    shape=size,
                    stage=stage,
                    is_widened=asked.is_widened,
                    configs=launch.configs,
                    alternatives=tuple(others),
                )


def _changed(
    source: Source, launch: Launch, settings: tuple[Config, Config], changed: Config
) -> Alternative:
    """A configuration with a matrix's own constants in place of some of its own."""
    tuned, options = settings
    constants = {**tuned, **changed}
    is_widened = _is_widened(launch, constants, options) or _adds_macros(source, launch, changed)
    return Alternative(constants, options, is_widened)


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


def _is_widened(launch: Launch, constants: Config, options: Config) -> bool:
    """Whether a configuration is none of the launch's own: other constants, or num_warps that its
    autotuner never tries."""
    for name, value in constants.items():
        if name in launch.args and launch.args[name] != {"constexpr": value}:
            return True
    if not launch.configs:
        return False
    return not any(is_config(config, constants, options) for config in launch.configs)


def _adds_macros(source: Source, launch: Launch, changed: Config) -> bool:
    """Whether a unit is compiled with macros that its build does not define."""
    return source.kernel.language == "cuda" and any(name not in launch.args for name in changed)


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
