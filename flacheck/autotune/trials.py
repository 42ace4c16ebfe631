"""The cells of an examination: a trial for each configuration, and what the release puts into its
key.

A trial's launch holds the configuration first and, where the autotuner has others, one of them: an
autotuner with a single configuration launches it without a trial, and forgives nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from flacheck.analysis.order import split
from flacheck.autotune.examined import Tuned
from flacheck.autotune.occupancy import thread_registers
from flacheck.model import Cell
from flacheck.tables import targets

BY_NAME_FROM = Version("3.2.0")
_DEFAULT_WARPS = 4


@dataclass(frozen=True)
class Trials:
    """The cells for one launch: `configs` in the autotuner's order, `keys` where the release looks
    keys up by position, `imports` where no launch of the kernel is known: then only its module can
    be asked for.
    """

    tuned: Tuned
    configs: tuple[Cell, ...]
    keys: Cell | None
    imports: Cell | None = None

    @property
    def cells(self) -> Iterator[Cell]:
        yield from self.configs
        yield from (cell for cell in (self.keys, self.imports) if cell)


def trials(tuned: Tuned) -> Trials:
    """What to ask of a launch."""
    if tuned.cell.stage == "import":
        return Trials(tuned, (), None, tuned.cell)
    cells = tuple(_trial(tuned, place) for place in range(len(tuned.launch.configs)))
    by_position = version(tuned.cell) < BY_NAME_FROM and tuned.launch.keys and len(cells) > 1
    return Trials(tuned, cells, replace(tuned.cell, stage="keys") if by_position else None)


def version(cell: Cell) -> Version:
    """The release of a cell's toolchain."""
    return Version(split(cell.toolchain)[1])


def _trial(tuned: Tuned, place: int) -> Cell:
    configs = tuned.launch.configs
    tried = configs[place]
    other = [configs[1 if place == 0 else 0]] if len(configs) > 1 else []
    options = {
        **tuned.options,
        **{name: value for name, value in tried.items() if name != "kwargs"},
    }
    launch = replace(tuned.launch, configs=(tried, *other), keys=())
    return replace(tuned.cell, stage="trial", launch=launch, options=options)


def ruled_out(tuned: Tuned, config: Mapping[str, Any]) -> str | None:
    """Why a configuration cannot run on its target, known before a compile; None when nothing
    speaks against it.
    """
    target = targets.find(tuned.cell.target)
    warps = config.get("num_warps", _DEFAULT_WARPS)
    threads = warps * target.warp_size
    if threads > target.max_threads:
        return f"num_warps={warps} is {threads} threads, a block has at most {target.max_threads}"
    most = thread_registers(target, warps)
    if (config.get("maxnreg") or 0) > most:
        return f"maxnreg={config['maxnreg']} with num_warps={warps}: a thread can have at most {most} registers"
    return None
