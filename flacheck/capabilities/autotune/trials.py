"""The cells of an examination: a trial for each configuration, and the release's own keys.

A trial's launch holds the configuration and, if the autotuner has others, one of them: an
autotuner with a single configuration launches it without a trial, and skips no failure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from flacheck.capabilities.autotune.keys import BY_NAME_FROM
from flacheck.capabilities.autotune.occupancy import thread_registers
from flacheck.capabilities.autotune.results import TunedLaunch
from flacheck.evidence.analysis.order import split
from flacheck.model import Cell
from flacheck.pipeline.fallbacks.constexprs import constexprs
from flacheck.pipeline.fallbacks.cost import of_settings
from flacheck.source.packages.package import Package
from flacheck.tables import targets

# The default of `triton.Config`.
DEFAULT_WARPS = 4


@dataclass(frozen=True)
class Trials:
    """The cells of one launch.

    Attributes:
        tuned_launch: The launch.
        configs: A trial for each configuration, in the autotuner's order.
        keys: The cell that reads the key, for releases that look keys up by position.
        imports: The cell that imports the module, for a kernel without a launch.
    """

    tuned_launch: TunedLaunch
    configs: tuple[Cell, ...]
    keys: Cell | None = None
    imports: Cell | None = None

    @property
    def cells(self) -> Iterator[Cell]:
        """All cells."""
        yield from self.configs
        yield from filter(None, (self.keys, self.imports))

    def compiles(self) -> list[Cell]:
        """Return each configuration as a plain compile, for estimates and fallbacks."""
        return [self.compile_of(config) for config in self.tuned_launch.launch.configs]

    def compile_of(self, config: Mapping[str, Any]) -> Cell:
        """Return the plain compile of a configuration, which the autotuner need not have."""
        launch = self.tuned_launch.launch
        cell = replace(
            self.tuned_launch.cell, stage="compile", options=_options(self.tuned_launch, config)
        )
        own_launch = launch.with_constants(config.get("kwargs", {}))
        return replace(cell, launch=own_launch, configs=launch.configs)

    def estimates(self, packages: Mapping[str, Package]) -> list[float]:
        """Return the estimated time of each configuration, to rank them by.

        Only ratios of estimates count.
        """
        warp_size = targets.find(self.tuned_launch.cell.target).warp_size
        estimates = []
        for cell in self.compiles():
            assert cell.launch is not None
            settings = {}
            for name, spec in cell.launch.args.items():
                if isinstance(spec, Mapping) and "constexpr" in spec:
                    settings[name] = spec["constexpr"]
            settings.update(cell.options)
            tiles = constexprs(cell, packages).blocks
            estimates.append(of_settings(settings, tiles, warp_size))
        return estimates


def trials(tuned_launch: TunedLaunch) -> Trials:
    """Return the cells of a launch."""
    cell = tuned_launch.cell
    if cell.stage == "import":
        return Trials(tuned_launch, (), imports=cell)
    launch = tuned_launch.launch
    configs = tuple(_trial(tuned_launch, index) for index in range(len(launch.configs)))
    # An autotuner with one configuration looks no key up.
    if version(cell) < BY_NAME_FROM and launch.keys and len(configs) > 1:
        return Trials(tuned_launch, configs, replace(cell, stage="keys"))
    return Trials(tuned_launch, configs)


def version(cell: Cell) -> Version:
    """Return the release of a cell's toolchain."""
    return Version(split(cell.toolchain)[1])


def _trial(tuned_launch: TunedLaunch, index: int) -> Cell:
    configs = tuned_launch.launch.configs
    config = configs[index]
    # One other configuration makes the autotuner try the first; more would only cost time.
    others = [*configs[:index], *configs[index + 1 :]]
    launch = replace(tuned_launch.launch, configs=(config, *others[:1]), keys=())
    options = _options(tuned_launch, config)
    return replace(tuned_launch.cell, stage="trial", launch=launch, options=options)


def _options(tuned_launch: TunedLaunch, config: Mapping[str, Any]) -> dict[str, Any]:
    options = {**tuned_launch.options}
    for name, value in config.items():
        if name != "kwargs":
            options[name] = value
    return options


def ruled_out(tuned_launch: TunedLaunch, config: Mapping[str, Any]) -> str | None:
    """Return why a configuration cannot run on its target, without a compile; None if it may."""
    target = targets.find(tuned_launch.cell.target)
    warps = config.get("num_warps", DEFAULT_WARPS)
    threads = warps * target.warp_size
    if threads > target.max_threads:
        return f"num_warps={warps} is {threads} threads, a block has at most {target.max_threads}"
    most = thread_registers(target, warps)
    if (config.get("maxnreg") or 0) > most:
        settings = f"maxnreg={config['maxnreg']} with num_warps={warps}"
        return f"{settings}: a thread can have at most {most} registers"
    return None
