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
from flacheck.capabilities.autotune.examined import Tuned
from flacheck.capabilities.autotune.keys import BY_NAME_FROM
from flacheck.capabilities.autotune.occupancy import thread_registers
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

    tuned: Tuned
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
        for trial, config in zip(self.configs, self.tuned.launch.configs):
            launch = self.tuned.launch.with_constants(config.get("kwargs", {}))
            cell = replace(trial, stage="compile", launch=launch, configs=self.tuned.launch.configs)
            compiles.append(cell)
        return compiles

    def estimates(self, packages: Mapping[str, Package]) -> list[float]:
        """The estimated time of each configuration before it is run, to rank them by; in no unit:
        only ratios mean something. `tests/gpu/check_estimate.py` compares the ranks with times
        measured on a card."""
        warp_size = targets.find(self.tuned.cell.target).warp_size
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


def trials(tuned: Tuned) -> Trials:
    """What to ask of a launch."""
    if tuned.cell.stage == "import":
        return Trials(tuned, (), imports=tuned.cell)
    cells = tuple(_trial(tuned, place) for place in range(len(tuned.launch.configs)))
    # An autotuner with one configuration looks no key up.
    if version(tuned.cell) < BY_NAME_FROM and tuned.launch.keys and len(cells) > 1:
        return Trials(tuned, cells, replace(tuned.cell, stage="keys"))
    return Trials(tuned, cells)


def version(cell: Cell) -> Version:
    """The release of a cell's toolchain."""
    return Version(split(cell.toolchain)[1])


def _trial(tuned: Tuned, place: int) -> Cell:
    configs = tuned.launch.configs
    tried = configs[place]
    # One other makes the autotuner try the first; more of them would only cost time.
    others = [config for number, config in enumerate(configs) if number != place]
    options = {name: value for name, value in tried.items() if name != "kwargs"}
    launch = replace(tuned.launch, configs=(tried, *others[:1]), keys=())
    return replace(tuned.cell, stage="trial", launch=launch, options={**tuned.options, **options})


def ruled_out(tuned: Tuned, config: Mapping[str, Any]) -> str | None:
    """Why a configuration cannot run on its target, known before a compile, else None."""
    target = targets.find(tuned.cell.target)
    warps = config.get("num_warps", DEFAULT_WARPS)
    threads = warps * target.warp_size
    if threads > target.max_threads:
        return f"num_warps={warps} is {threads} threads, a block has at most {target.max_threads}"
    most = thread_registers(target, warps)
    if (config.get("maxnreg") or 0) > most:
        asked = f"maxnreg={config['maxnreg']} with num_warps={warps}"
        return f"{asked}: a thread can have at most {most} registers"
    return None
