"""What may be tried instead of a failing cell, nearest first (`ranking`). Pure: nothing is compiled
here. What host code passes differently as a consequence, such as `NC = cdiv(BT, BC)`, goes along
and is no change of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

from flacheck.fallbacks.constexprs import HOST, TUNABLE, Constexprs
from flacheck.fallbacks.cost import DEFAULTS, loss
from flacheck.fallbacks.ranking import rank
from flacheck.model import Cell, canonical

# What autotuners of published kernels use; a kernel's own list adds to it.
WARPS = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4)
OPTION, DTYPE = "option", "dtype"
# Beyond so many points of a space only this many settings are changed at once: all of them would
# take seconds to enumerate, and what changes everything is nobody's fallback.
LARGE, CHANGES = 20_000, 4
Use = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """Settings to try: what changes (`use`), what `follows` in host code, the estimated loss."""

    use: Mapping[str, Any]
    follows: Mapping[str, Any] = field(default_factory=dict)
    loss: float = 0.0

    def of(self, cell: Cell) -> Cell:
        """The failing cell with these settings, wherever it is."""
        if cell.launch is None:
            return cell
        changed = {**self.use, **self.follows}
        dtype = changed.pop(DTYPE, cell.dtype)
        args, options = dict(cell.launch.args), dict(cell.options)
        for name, spec in args.items():
            is_of_cell = isinstance(spec, Mapping) and spec.get("dtype") == cell.dtype
            if is_of_cell and dtype != cell.dtype:
                args[name] = {**spec, "dtype": dtype}
        for name, value in changed.items():
            if name not in args:
                options[name] = value
            elif isinstance(args[name], Mapping) and "int" in args[name]:
                args[name] = {"int": value}
            else:
                args[name] = {"constexpr": value}
        launch = replace(cell.launch, args=args)
        return replace(cell, launch=launch, options=options, dtype=dtype, widened=True)


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
        """Every candidate once, in the order of the module's docstring."""
        most = len(self.axes)
        if len(self) > LARGE:
            most = min(CHANGES, most)
        for count in range(1, most + 1):
            uses = (
                dict(zip(names, values))
                for names in combinations(self.axes, count)
                for values in product(*(self.axes[name] for name in names))
            )
            yield from sorted(filter(None, map(self.candidate, uses)), key=self.rank)

    def corners(self) -> list[Candidate]:
        """All tiles at their smallest and the fewest stages, with each num_warps; nearest first."""
        small = {
            name: min([*values, self.failing[name]])
            for name, values in self.axes.items()
            if name in self.constexprs.by_name
        }
        if "num_stages" in self.axes:
            small["num_stages"] = min(self.axes["num_stages"])
        corners: dict[str, Candidate] = {}
        for warps in ({}, *({"num_warps": count} for count in self.axes.get("num_warps", ()))):
            settings = {**small, **warps}
            use = {name: held for name, held in settings.items() if held != self.failing[name]}
            candidate = self.candidate(use)
            # The failing settings may be the smallest themselves.
            if use and candidate:
                corners[canonical(use)] = candidate
        return sorted(corners.values(), key=self.rank)

    def candidate(self, use: Use) -> Candidate | None:
        """A change with what follows from it; None where that cannot be known."""
        follows = self.constexprs.follow(self.args, use)
        if follows is None:
            return None
        return Candidate(
            use,
            follows,
            loss(self.failing, {**use, **follows}, self.constexprs.blocks, self.warp_size),
        )

    def is_no_lighter(self, candidate: Candidate, than: Candidate) -> bool:
        """Whether a thread has at least as much to do: no smaller tile, no more warps."""
        own, other = ({**self.failing, **each.use, **each.follows} for each in (candidate, than))
        tiles = all(own[name] >= other[name] for name in self.constexprs.blocks)
        return tiles and bool(own["num_warps"] <= other["num_warps"])

    def rank(self, candidate: Candidate) -> tuple[Any, ...]:
        """Sort key of a candidate: the nearest first."""
        return rank(self.failing, candidate.use, self.constexprs.by_name.keys(), candidate.loss)


def space_of(
    cell: Cell, known: Constexprs, warp_size: int, max_threads: int, options: bool = True
) -> Space:
    """All that may change: options (unless they cannot matter), tunable and host constants."""
    failing = {
        **DEFAULTS,
        **cell.options,
        **{name: each.value for name, each in known.by_name.items()},
    }
    axes: dict[str, list[Any]] = {}
    if options:
        own = [name for config in cell.configs for name in config if name != "kwargs"]
        for name in ("num_warps", "num_stages", *own):
            usual = {"num_warps": WARPS, "num_stages": STAGES}.get(name, ())
            listed = [config[name] for config in cell.configs if config.get(name) is not None]
            values = dict.fromkeys([*usual, *listed])
            axes[name] = [value for value in values if value != failing.get(name)]
        # A block of more threads cannot be launched, whatever compiles.
        axes["num_warps"] = [n for n in axes["num_warps"] if n * warp_size <= max_threads]
    for name, constant in known.by_name.items():
        if constant.mark in (TUNABLE, HOST):
            axes[name] = _sizes(name, cell, known)
    changing = {name: axis for name, axis in axes.items() if axis}
    args = cell.launch.args if cell.launch else {}
    return Space(failing, changing, known, args, warp_size)


def marks_of(candidate: Candidate, known: Constexprs) -> dict[str, str]:
    """Who has to change each setting of a candidate."""
    marks = {name: constant.mark for name, constant in known.by_name.items()}
    marks.setdefault(DTYPE, DTYPE)
    return {name: marks.get(name, OPTION) for name in candidate.use}


def _sizes(name: str, cell: Cell, known: Constexprs) -> list[int]:
    """The present value and those in the autotuner's list, each of them also halved."""
    here = known.by_name[name].value
    own = [config.get("kwargs", {}).get(name) for config in cell.configs]
    whole = [here, *(size for size in own if type(size) is int)]
    halves = [half for size in whole for half in known.halve(name, size)]
    return [size for size in dict.fromkeys([*whole, *halves]) if size != here]
