"""From a matrix and a selection to cells. Pure: sources and toolchains are given, nothing is
imported or installed.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from flacheck.errors import UsageError
from flacheck.inputs.matrix import Block, Matrix
from flacheck.model import Cell, Kernel, Launch, canonical

DEFAULT_TARGETS = ("sm80", "sm90")
DEFAULT_DTYPES = ("bf16", "fp16", "fp32")
_USUAL_WARPS = 4


@dataclass(frozen=True)
class Source:
    """A kernel with what it declares: launch templates, autotune configurations and keys, shapes."""

    kernel: Kernel
    launches: tuple[Mapping[str, Any], ...]
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

    def replaces(self, axes: Mapping[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        """A block's axes with the selection in place of the matrix's own."""
        mine: dict[str, tuple[Any, ...]] = {
            "target": self.targets,
            "dtype": self.dtypes,
            "triton": self.toolchains,
        }
        explicit = {axis: values for axis, values in self.options().items() if axis in axes}
        return {**axes, **{axis: values for axis, values in (mine | explicit).items() if values}}

    def options(self) -> dict[str, tuple[int, ...]]:
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}


@dataclass(frozen=True)
class _Job:
    """All of a cell but its target and toolchain."""

    source: Source
    launch: Launch
    options: Mapping[str, Any]
    dtype: str | None
    shape: Mapping[str, int]
    stage: str
    widened: bool = False
    configs: tuple[Mapping[str, Any], ...] = ()

    def cell(self, target: str, toolchain: str, until: str | None) -> Cell:
        return Cell(
            self.source.kernel,
            toolchain,
            target,
            self.launch,
            self.options,
            self.dtype,
            self.shape,
            self.widened,
            self.stage,
            until,
            self.configs,
        )


Resolve = Callable[[str], Sequence[str]]


def named(glob: str, name: str) -> bool:
    """Whether a glob matches a kernel's whole name or its last part."""
    return fnmatchcase(name, glob) or fnmatchcase(name.replace(":", ".").rpartition(".")[2], glob)


def check_kernels(globs: Sequence[str], known: Iterable[str]) -> None:
    """Raises UsageError for a glob that no known kernel matches."""
    names = sorted(set(known))
    for glob in globs:
        if not any(named(glob, name) for name in names):
            near = difflib.get_close_matches(
                glob, names + [n.replace(":", ".").rpartition(".")[2] for n in names], 3, 0.5
            )
            hint = f"did you mean {' or '.join(near)}?" if near else "see `flacheck list kernels`"
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
    products = [_product(matrix, block, sources, selection) for block in matrix.blocks]
    toolchains = dict.fromkeys(
        name for _, axes in products for spec in _specs(axes) for name in resolve(spec)
    )
    seen = set()
    for toolchain in toolchains:
        for jobs, axes in products:
            if not any(toolchain in resolve(spec) for spec in _specs(axes)):
                continue
            for target, job in itertools.product(_targets(axes), jobs):
                cell = job.cell(target, toolchain, until)
                if not _excluded(matrix, cell, resolve) and cell.key not in seen:
                    seen.add(cell.key)
                    yield cell


def _specs(axes: Mapping[str, tuple[Any, ...]]) -> tuple[str, ...]:
    return axes.get("triton", ("installed",))


def _targets(axes: Mapping[str, tuple[Any, ...]]) -> list[str]:
    from flacheck.tables import targets

    return [targets.find(str(name)).name for name in axes.get("target", DEFAULT_TARGETS)]


def _product(
    matrix: Matrix, block: Block, sources: Sequence[Source], selection: Selection
) -> tuple[list[_Job], dict[str, tuple[Any, ...]]]:
    axes = selection.replaces(block.axes)
    jobs = []
    for source in sources:
        if _asked(source.kernel, axes, selection):
            jobs += list(_jobs(matrix, source, axes, selection))
    return jobs, axes


def _asked(kernel: Kernel, axes: Mapping[str, tuple[Any, ...]], selection: Selection) -> bool:
    return (
        any(named(glob, kernel.name) for glob in axes.get("kernel", ("*",)))
        and any(named(glob, kernel.name) for glob in selection.kernels or ("*",))
        and (
            "package" not in axes
            or any(fnmatchcase(kernel.package or "", glob) for glob in axes["package"])
        )
    )


def _jobs(
    matrix: Matrix, source: Source, axes: Mapping[str, tuple[Any, ...]], selection: Selection
) -> Iterator[_Job]:
    for stage, template in itertools.product(axes.get("stage", ("compile",)), source.launches):
        for dtype, shape in itertools.product(
            _dtypes(template, axes, selection), _shapes(axes, source)
        ):
            launch = _substituted(matrix, source.kernel.name, template, dtype, shape)
            if stage == "autotune":
                if launch.configs and not (selection.num_warps or selection.num_stages):
                    yield _Job(source, launch, {}, dtype, shape, stage)
                continue
            for changed, (constants, options) in itertools.product(
                axes.get("constants", ({},)), _options(launch, axes, selection)
            ):
                chosen = {**constants, **changed}
                widened = _widened(launch, chosen, options)
                yield _Job(
                    source,
                    filled(launch, chosen),
                    options,
                    dtype,
                    shape,
                    stage,
                    widened,
                    launch.configs,
                )


def _dtypes(
    template: Mapping[str, Any], axes: Mapping[str, tuple[Any, ...]], selection: Selection
) -> Sequence[str | None]:
    """Those of the axis for a template, its own for a launch as it was recorded (if the selection
    wants it).
    """
    if '"{dtype}"' in canonical(template):
        return axes.get("dtype", DEFAULT_DTYPES)
    own = main_dtype(template["args"])
    return (own,) if not selection.dtypes or own in selection.dtypes else ()


def main_dtype(args: Mapping[str, Any]) -> str | None:
    """What a launch is said to be in: its tensors' first short float, else float; None without any."""
    held = [
        spec["dtype"]
        for spec in args.values()
        if isinstance(spec, Mapping) and isinstance(spec.get("dtype"), str)
    ]
    short = [dtype for dtype in held if dtype in ("bf16", "fp16") or dtype.startswith("fp8")]
    return next(iter(short), None) or next(
        (dtype for dtype in held if dtype.startswith("fp")), None
    )


def _shapes(axes: Mapping[str, tuple[Any, ...]], source: Source) -> list[Mapping[str, int]]:
    own = source.shapes or ({},)
    return [
        shape
        for item in axes.get("shape", ("own",))
        for shape in (own if item == "own" else (item,))
    ]


def _substituted(
    matrix: Matrix,
    kernel: str,
    template: Mapping[str, Any],
    dtype: str | None,
    shape: Mapping[str, int],
) -> Launch:
    """The template with `"{dtype}"` and `"{T}"`-like names replaced by their values."""
    names: dict[str, Any] = {**shape, **({"dtype": dtype} if dtype else {})}

    def put(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: put(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [put(item) for item in value]
        if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
            if value[1:-1] not in names:
                raise UsageError(
                    f"{matrix.file}: {kernel}: {value} is no name of the shape {dict(shape)}"
                )
            return names[value[1:-1]]
        return value

    return Launch.from_json(put(template))


def _options(
    launch: Launch, axes: Mapping[str, tuple[Any, ...]], selection: Selection
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(constants, options) of each configuration to compile."""
    explicit = any(axis in axes for axis in ("num_warps", "num_stages"))
    if launch.configs and not explicit:
        yield from _own_configs(
            _chosen(launch.configs, axes.get("configs", ("own",))[0]), axes, selection
        )
        return
    if not explicit:
        axes = {**axes, **{axis: values for axis, values in selection.options().items() if values}}
    constants = _distinct(dict(config.get("kwargs", {})) for config in launch.configs) or [{}]
    yield from itertools.product(constants, _option_sets(axes))


def _chosen(configs: Sequence[Mapping[str, Any]], which: str) -> Sequence[Mapping[str, Any]]:
    if which == "usual":
        return (min(configs, key=_oddity),)
    return configs[:1] if which == "first" else configs


def _oddity(config: Mapping[str, Any]) -> tuple[float, ...]:
    """How far a configuration is from what a kernel runs with anywhere: four warps, the smallest
    tile, few stages.
    """
    warps = math.log2(config.get("num_warps", _USUAL_WARPS) / _USUAL_WARPS)
    tile = math.prod(
        value for value in config.get("kwargs", {}).values() if isinstance(value, int) and value > 0
    )
    return abs(warps), -warps, tile, config.get("num_stages", 0)


def _option_sets(axes: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    scalar = [axis for axis in ("num_warps", "num_stages") if axis in axes]
    combined = [
        dict(zip(scalar, values)) for values in itertools.product(*(axes[axis] for axis in scalar))
    ]
    return [{**extra, **options} for extra in axes.get("options", ({},)) for options in combined]


def _own_configs(
    configs: Sequence[Mapping[str, Any]], axes: Mapping[str, tuple[Any, ...]], selection: Selection
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The autotune list; a selection of num_warps or num_stages replaces theirs."""
    warps, stages = selection.num_warps or (None,), selection.num_stages or (None,)
    for config, num_warps, num_stages in itertools.product(configs, warps, stages):
        chosen = {
            k: v for k, v in (("num_warps", num_warps), ("num_stages", num_stages)) if v is not None
        }
        wanted = {**config, **chosen}
        options = {
            name: value for name, value in wanted.items() if name != "kwargs" and value is not None
        }
        for extra in axes.get("options", ({},)):
            yield dict(wanted.get("kwargs", {})), {**options, **extra}


def _widened(launch: Launch, constants: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether a configuration is none of the launch's own: other constants, or num_warps its
    autotuner never tries.
    """
    if any(
        name in launch.args and launch.args[name] != {"constexpr": value}
        for name, value in constants.items()
    ):
        return True
    return bool(launch.configs) and not any(
        _is(config, constants, options) for config in launch.configs
    )


def _is(
    config: Mapping[str, Any], constants: Mapping[str, Any], options: Mapping[str, Any]
) -> bool:
    same = all(constants.get(name) == value for name, value in config.get("kwargs", {}).items())
    return same and all(
        value == options.get(name, value) for name, value in config.items() if name != "kwargs"
    )


def filled(launch: Launch, constants: Mapping[str, Any]) -> Launch:
    """The launch with tuned constants in it; what heuristics supply stays omitted."""
    filled = {name: {"constexpr": value} for name, value in constants.items()}
    return replace(
        launch,
        args={**launch.args, **filled},
        omitted=tuple(name for name in launch.omitted if name not in constants),
        configs=(),
        keys=(),
    )


def _distinct(values: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({canonical(value): value for value in values}.values())


def _excluded(matrix: Matrix, cell: Cell, resolve: Resolve) -> bool:
    return any(
        all(_matches(axis, values, cell, resolve) for axis, values in entry.items())
        for entry in matrix.exclude
    )


def _matches(axis: str, values: tuple[Any, ...], cell: Cell, resolve: Resolve) -> bool:
    if axis == "kernel":
        return any(named(glob, cell.kernel.name) for glob in values)
    if axis == "package":
        return any(fnmatchcase(cell.kernel.package or "", glob) for glob in values)
    if axis == "triton":
        return any(cell.toolchain in resolve(spec) for spec in values)
    if axis in ("shape", "options"):
        held: Mapping[str, Any] = cell.shape if axis == "shape" else cell.options
        return any(all(held.get(k) == v for k, v in value.items()) for value in values)
    own = {"dtype": cell.dtype, "target": cell.target, "stage": cell.stage}
    return own.get(axis, cell.options.get(axis)) in values
