"""The cells of an examination: a trial for each configuration, and what the release puts into its
key.

A trial's launch holds the configuration first and, where the autotuner has others, one of them: an
autotuner with a single configuration launches it without a trial, and forgives nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from flacheck.analysis.order import split
from flacheck.capabilities.autotune.keys import BY_NAME_FROM
from flacheck.capabilities.autotune.occupancy import thread_registers
from flacheck.capabilities.autotune.results import TunedLaunch
from flacheck.fallbacks.constexprs import constexprs
from flacheck.fallbacks.cost import of_settings
from flacheck.model import Cell
from flacheck.packages.package import Package
from flacheck.tables import targets

# What `triton.Config` takes where a configuration says nothing.
DEFAULT_WARPS = 4


@dataclass(frozen=True)
class Trials:
    """The cells for one launch: `configs` in the autotuner's order, `keys` where the release looks
    keys up by position, `imports` where no launch of the kernel is known: then only its module can
    be asked for."""

    tuned_launch: TunedLaunch
    configs: tuple[Cell, ...]
    keys: Cell | None = None
    imports: Cell | None = None

    @property
    def cells(self) -> Iterator[Cell]:
        yield from self.configs
        yield from (cell for cell in (self.keys, self.imports) if cell)

    def compiles(self) -> list[Cell]:
        """Each configuration as a plain compile, for estimates and the search for fallbacks."""
        compiles = []
        for trial, config in zip(self.configs, self.tuned_launch.launch.configs):
            launch = self.tuned_launch.launch.with_constants(config.get("kwargs", {}))
            cell = replace(
                trial, stage="compile", launch=launch, configs=self.tuned_launch.launch.configs
            )
            compiles.append(cell)
        return compiles

    def estimates(self, packages: Mapping[str, Package]) -> list[float]:
        """The estimated time of each configuration before it is run, to rank them by; in no unit:
        only ratios mean something. `tests/gpu/check_estimate.py` compares the ranks with times
        measured on a card."""
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
    """What to ask of a launch."""
    if tuned_launch.cell.stage == "import":
        return Trials(tuned_launch, (), imports=tuned_launch.cell)
    cells = tuple(_trial(tuned_launch, place) for place in range(len(tuned_launch.launch.configs)))
    # An autotuner with one configuration looks no key up.
    if version(tuned_launch.cell) < BY_NAME_FROM and tuned_launch.launch.keys and len(cells) > 1:
        return Trials(tuned_launch, cells, replace(tuned_launch.cell, stage="keys"))
    return Trials(tuned_launch, cells)


def version(cell: Cell) -> Version:
    """The release of a cell's toolchain."""
    return Version(split(cell.toolchain)[1])


def _trial(tuned_launch: TunedLaunch, place: int) -> Cell:
    configs = tuned_launch.launch.configs
    tried = configs[place]
    # One other makes the autotuner try the first; more of them would only cost time.
    others = [config for number, config in enumerate(configs) if number != place]
    options = {name: value for name, value in tried.items() if name != "kwargs"}
    launch = replace(tuned_launch.launch, configs=(tried, *others[:1]), keys=())
    return replace(
        tuned_launch.cell, stage="trial", launch=launch, options={**tuned_launch.options, **options}
    )


def ruled_out(tuned_launch: TunedLaunch, config: Mapping[str, Any]) -> str | None:
    """Why a configuration cannot run on its target, known before a compile, else None."""
    target = targets.find(tuned_launch.cell.target)
    warps = config.get("num_warps", DEFAULT_WARPS)
    threads = warps * target.warp_size
    if threads > target.max_threads:
        return f"num_warps={warps} is {threads} threads, a block has at most {target.max_threads}"
    most = thread_registers(target, warps)
    if (config.get("maxnreg") or 0) > most:
        asked = f"maxnreg={config['maxnreg']} with num_warps={warps}"
        return f"{asked}: a thread can have at most {most} registers"
    return None
