"""Which configurations of a launch are compiled: its autotuner's, or what a matrix and the command
line say."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flacheck.inputs.matrix import Axes
from flacheck.model import Launch, canonical

Config = Mapping[str, Any]
# What is chosen on the command line of some options, by their names.
Selected = Mapping[str, tuple[int, ...]]

# Triton's own default, and what nearly every kernel runs with.
_USUAL_WARPS = 4
_OPTIONS = ("num_warps", "num_stages")
# How one configuration of many is asked for.
_ONE = ("usual", "shared")


@dataclass(frozen=True)
class ChosenConfig:
    """One configuration to compile: tuned constants and options. `others` are those, each as such a
    pair, that its autotuner has besides, where this one was chosen of many."""

    constants: Config
    options: Config
    others: tuple[tuple[Config, Config], ...] = ()


def choices(launch: Launch, axes: Axes, selected: Selected) -> Iterator[ChosenConfig]:
    """Each configuration of the launch to compile."""
    explicit = any(axis in axes for axis in _OPTIONS)
    if launch.configs and not explicit:
        which = axes.get("configs", ("own",))[0]
        chosen = _chosen(launch.configs, which)
        others: tuple[Config, ...] = ()
        if which == "usual":
            others = tuple(sorted(launch.configs, key=_demand))
        # A selection of num_warps or num_stages replaces theirs.
        for config, imposed in itertools.product(chosen, _imposed(axes, selected)):
            asked = _settings(config, imposed)
            besides = [_settings(other, imposed) for other in others]
            yield ChosenConfig(*asked, _distinct(asked, besides))
        return
    if not explicit:
        axes = {**axes, **_given(selected)}
    # Configurations that differ in options alone share their constants.
    tuned = [dict(config.get("kwargs", {})) for config in launch.configs] or [{}]
    distinct = {canonical(constants): constants for constants in tuned}
    for constants, options in itertools.product(distinct.values(), _option_sets(axes)):
        yield ChosenConfig(constants, options)


def is_config(config: Config, constants: Config, options: Config) -> bool:
    """Whether constants and options are those of an autotuner's configuration."""
    tuned = config.get("kwargs", {})
    same = all(constants.get(name) == value for name, value in tuned.items())
    others = {name: value for name, value in config.items() if name != "kwargs"}
    return same and all(value == options.get(name, value) for name, value in others.items())


def _chosen(configs: Sequence[Config], which: str) -> Sequence[Config]:
    # Which launches of a kernel and dtype these are of was chosen before.
    if which in _ONE:
        return (min(configs, key=_oddity),)
    if which == "first":
        return configs[:1]
    return configs


def _oddity(config: Config) -> tuple[float, ...]:
    """How far a configuration is from what a kernel runs with anywhere: four warps, the smallest
    tile, few stages."""
    warps = math.log2(config.get("num_warps", _USUAL_WARPS) / _USUAL_WARPS)
    return abs(warps), -warps, _tile(config), config.get("num_stages", 0)


def _demand(config: Config) -> tuple[float, ...]:
    """How much of a GPU's memory a configuration is likely to need: each stage of a pipeline holds
    a tile."""
    stages = config.get("num_stages") or 1
    return _tile(config) * stages, stages, *_oddity(config)


def _tile(config: Config) -> int:
    sizes = [value for value in config.get("kwargs", {}).values() if isinstance(value, int)]
    return math.prod(size for size in sizes if size > 0)


def _settings(config: Config, imposed: Config) -> tuple[Config, Config]:
    """A configuration's constants and options, some of them imposed."""
    held = dict(config)
    constants = dict(held.pop("kwargs", {}))
    options = {name: value for name, value in held.items() if value is not None}
    return constants, {**options, **imposed}


def _distinct(
    asked: tuple[Config, Config], besides: Sequence[tuple[Config, Config]]
) -> tuple[tuple[Config, Config], ...]:
    """The others, each once. One that tunes other constants leaves some of the launch without a
    value, and is left out."""
    constants, _ = asked
    own = canonical(asked)
    others = {canonical(other): other for other in besides if other[0].keys() == constants.keys()}
    return tuple(other for identity, other in others.items() if identity != own)


def _imposed(axes: Axes, selected: Selected) -> list[Config]:
    """What takes the place of a configuration's own options."""
    replaced = _option_sets(_given(selected))
    return [{**one, **extra} for one in replaced for extra in axes.get("options", ({},))]


def _given(selected: Selected) -> Axes:
    return {name: values for name, values in selected.items() if values}


def _option_sets(axes: Axes) -> list[dict[str, Any]]:
    names = [axis for axis in _OPTIONS if axis in axes]
    values = itertools.product(*(axes[axis] for axis in names))
    combined = [dict(zip(names, combination)) for combination in values]
    return [{**extra, **options} for extra in axes.get("options", ({},)) for options in combined]
