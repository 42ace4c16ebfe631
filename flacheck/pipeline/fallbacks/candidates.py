"""Candidates that a search tries in place of a failing cell, nearest first (`ranking`).

Pure: nothing is compiled here. If host code derives other arguments from a changed setting, such as
`NC = cdiv(BT, BC)`, the candidate carries them, and they do not count as changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

from flacheck.model import Cell, canonical
from flacheck.pipeline.fallbacks.constexprs import HOST, TUNABLE, Constexprs
from flacheck.pipeline.fallbacks.cost import DEFAULTS, loss
from flacheck.pipeline.fallbacks.ranking import rank

# The usual values of published autotuners; a kernel's own list adds to these.
WARPS = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4)
OPTION, DTYPE = "option", "dtype"
# A space with more points than LARGE takes seconds to enumerate, so at most CHANGES settings change
# at once. A fallback that changes every setting is useless.
LARGE, CHANGES = 20_000, 4
Use = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """Settings to try: the changes (`use`), what `follows` in host code, the estimated loss."""

    use: Mapping[str, Any]
    follows: Mapping[str, Any] = field(default_factory=dict)
    loss: float = 0.0

    def of(self, cell: Cell) -> Cell:
        """Return a failing cell with these settings, on any release and target."""
        if cell.launch is None:
            return cell
        changes = {**self.use, **self.follows}
        dtype = changes.pop(DTYPE, cell.dtype)
        args, options = dict(cell.launch.args), dict(cell.options)
        for name, spec in args.items():
            is_of_cell = isinstance(spec, Mapping) and spec.get("dtype") == cell.dtype
            if is_of_cell and dtype != cell.dtype:
                args[name] = {**spec, "dtype": dtype}
        for name, value in changes.items():
            if name not in args:
                options[name] = value
            elif isinstance(args[name], Mapping) and "int" in args[name]:
                args[name] = {"int": value}
            else:
                args[name] = {"constexpr": value}
        launch = replace(cell.launch, args=args)
        return replace(cell, launch=launch, options=options, dtype=dtype, is_widened=True)


@dataclass(frozen=True)
class Space:
    """The settings of a failing cell and, for each that may change, its other values."""

    failing: Mapping[str, Any]
    axes: Mapping[str, Sequence[Any]]
    constexprs: Constexprs
    args: Mapping[str, Any]
    warp_size: int = 32

    def __len__(self) -> int:
        size = 1
        for values in self.axes.values():
            size *= 1 + len(values)
        return size - 1

    def nearest_first(self) -> Iterator[Candidate]:
        """Yield every candidate once, in the order of `ranking`."""
        most = len(self.axes)
        if len(self) > LARGE:
            most = min(CHANGES, most)
        for count in range(1, most + 1):
            yield from sorted(self._candidates(count), key=self.rank)

    def _candidates(self, count: int) -> Iterator[Candidate]:
        """Yield the candidates that change exactly `count` settings."""
        for names in combinations(self.axes, count):
            axes = [self.axes[name] for name in names]
            for values in product(*axes):
                candidate = self.candidate(dict(zip(names, values)))
                if candidate:
                    yield candidate

    def corners(self) -> list[Candidate]:
        """Return the smallest tiles and fewest stages with each num_warps, nearest first."""
        smallest: Use = {}
        for name, values in self.axes.items():
            if name in self.constexprs.by_name:
                smallest[name] = min([*values, self.failing[name]])
        if "num_stages" in self.axes:
            smallest["num_stages"] = min(self.axes["num_stages"])
        variants: list[Use] = [smallest]
        for count in self.axes.get("num_warps", ()):
            variants.append({**smallest, "num_warps": count})
        corners: dict[str, Candidate] = {}
        for settings in variants:
            use = _differences(settings, self.failing)
            candidate = self.candidate(use)
            # The failing settings may be the smallest themselves.
            if use and candidate:
                corners[canonical(use)] = candidate
        return sorted(corners.values(), key=self.rank)

    def candidate(self, use: Use) -> Candidate | None:
        """Return a change with what follows from it; None if the host code cannot be evaluated."""
        follows = self.constexprs.follow(self.args, use)
        if follows is None:
            return None
        blocks = self.constexprs.blocks
        estimate = loss(self.failing, {**use, **follows}, blocks, self.warp_size)
        return Candidate(use, follows, estimate)

    def is_as_heavy(self, candidate: Candidate, other: Candidate) -> bool:
        """Return True if no tile is smaller than the other's, and there are not more warps."""
        mine = {**self.failing, **candidate.use, **candidate.follows}
        theirs = {**self.failing, **other.use, **other.follows}
        for name in self.constexprs.blocks:
            if mine[name] < theirs[name]:
                return False
        return bool(mine["num_warps"] <= theirs["num_warps"])

    def rank(self, candidate: Candidate) -> tuple[Any, ...]:
        """Return the sort key of a candidate: the nearest first."""
        tiles = self.constexprs.by_name.keys()
        return rank(self.failing, candidate.use, tiles, candidate.loss)


def space_of(
    cell: Cell,
    constexprs: Constexprs,
    warp_size: int,
    max_threads: int,
    options: bool = True,
) -> Space:
    """Return all that may change: options (if they can matter), tunable and host constants."""
    failing = {**DEFAULTS, **cell.options, **constexprs.values}
    axes: dict[str, list[Any]] = {}
    if options:
        axes = _option_axes(cell, failing)
        # A block of more threads cannot be launched, even if it compiles.
        launchable = [n for n in axes["num_warps"] if n * warp_size <= max_threads]
        axes["num_warps"] = launchable
    for name, constant in constexprs.by_name.items():
        if constant.mark in (TUNABLE, HOST):
            axes[name] = _sizes(name, cell, constexprs)
    changing = {name: axis for name, axis in axes.items() if axis}
    args = cell.launch.args if cell.launch else {}
    return Space(failing, changing, constexprs, args, warp_size)


def marks_of(candidate: Candidate, constexprs: Constexprs) -> dict[str, str]:
    """Return who has to change each setting of a candidate."""
    marks = {}
    for name in candidate.use:
        if name in constexprs.by_name:
            marks[name] = constexprs.by_name[name].mark
        elif name == DTYPE:
            marks[name] = DTYPE
        else:
            marks[name] = OPTION
    return marks


def _option_axes(cell: Cell, failing: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the other values of each option: the usual ones and those of the autotuner."""
    names = ["num_warps", "num_stages"]
    for config in cell.configs:
        names += [name for name in config if name != "kwargs"]
    usual = {"num_warps": WARPS, "num_stages": STAGES}
    axes = {}
    for name in names:
        values = list(usual.get(name, ()))
        for config in cell.configs:
            if config.get(name) is not None:
                values.append(config[name])
        axes[name] = [value for value in dict.fromkeys(values) if value != failing.get(name)]
    return axes


def _sizes(name: str, cell: Cell, constexprs: Constexprs) -> list[int]:
    """Return the present value and the values in the autotuner's list, each of them also halved."""
    here = constexprs.by_name[name].value
    sizes = [here]
    for config in cell.configs:
        size = config.get("kwargs", {}).get(name)
        if type(size) is int:
            sizes.append(size)
    halves: list[int] = []
    for size in sizes:
        halves += constexprs.halve(name, size)
    distinct = dict.fromkeys([*sizes, *halves])
    distinct.pop(here)
    return list(distinct)


def _differences(settings: Use, failing: Mapping[str, Any]) -> Use:
    """Return the settings whose value differs from the failing cell's."""
    return {name: value for name, value in settings.items() if value != failing[name]}
