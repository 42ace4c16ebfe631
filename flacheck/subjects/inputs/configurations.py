"""The configurations of a launch that are compiled.

They come from the launch's autotuner, or from a matrix and the command line.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flacheck.model import Launch, canonical
from flacheck.subjects.inputs.matrix import Axes

Config = Mapping[str, Any]
# Values of some options from the command line, by the options' names.
OptionValues = Mapping[str, tuple[int, ...]]
# The constants and the options of a configuration.
_Settings = tuple[Config, Config]

# Triton's default, and the number of warps of nearly every kernel.
_USUAL_WARPS = 4
_OPTIONS = ("num_warps", "num_stages")


@dataclass(frozen=True)
class ChosenConfig:
    """One configuration to compile: tuned constants and options.

    `others` are the autotuner's other configurations if this one was chosen of many.
    """

    constants: Config
    options: Config
    others: tuple[_Settings, ...] = ()


def choices(launch: Launch, axes: Axes, option_values: OptionValues) -> Iterator[ChosenConfig]:
    """Yield each configuration of the launch to compile."""
    is_explicit = not axes.keys().isdisjoint(_OPTIONS)
    if launch.configs and not is_explicit:
        yield from _own_choices(launch, axes, option_values)
        return
    if not is_explicit:
        axes = {**axes, **_as_axes(option_values)}
    # Configurations that differ in options alone share their constants.
    distinct: dict[str, Config] = {}
    for config in launch.configs or ({},):
        constants = dict(config.get("kwargs", {}))
        distinct[canonical(constants)] = constants
    for constants, options in itertools.product(distinct.values(), _option_sets(axes)):
        yield ChosenConfig(constants, options)


def _own_choices(launch: Launch, axes: Axes, option_values: OptionValues) -> Iterator[ChosenConfig]:
    """Yield configurations of the launch's autotuner."""
    which = axes.get("configs", ("own",))[0]
    others: Sequence[Config] = ()
    if which == "usual":
        others = sorted(launch.configs, key=demand)
    configs = _select(launch.configs, which)
    for config, overrides in itertools.product(configs, _overrides(axes, option_values)):
        settings = _settings(config, overrides)
        alternatives = [_settings(other, overrides) for other in others]
        yield ChosenConfig(*settings, _distinct(settings, alternatives))


def is_config(config: Config, constants: Config, options: Config) -> bool:
    """Return True if constants and options are those of an autotuner's configuration."""
    for name, value in config.get("kwargs", {}).items():
        if constants.get(name) != value:
            return False
    for name, value in config.items():
        if name != "kwargs" and value != options.get(name, value):
            return False
    return True


def _select(configs: Sequence[Config], which: str) -> Sequence[Config]:
    if which == "usual":
        return (min(configs, key=_oddity),)
    if which == "first":
        return configs[:1]
    return configs


def _oddity(config: Config) -> tuple[float, ...]:
    """Return the distance of a configuration from one that runs on every GPU.

    Such a configuration has four warps, the smallest tile and few stages.
    """
    warps = config.get("num_warps")
    if warps is None:
        warps = _USUAL_WARPS
    # Triton refuses less than one warp.
    distance = math.log2(max(warps, 1) / _USUAL_WARPS)
    return abs(distance), -distance, _tile(config), config.get("num_stages") or 0


def demand(config: Config) -> tuple[float, ...]:
    """Return the likely demand for a GPU's memory: each stage of a pipeline holds a tile."""
    stages = config.get("num_stages") or 1
    return _tile(config) * stages, stages, *_oddity(config)


def _tile(config: Config) -> int:
    tile = 1
    for value in config.get("kwargs", {}).values():
        if isinstance(value, int) and value > 0:
            tile *= value
    return tile


def _settings(config: Config, overrides: Config) -> _Settings:
    """Return a configuration's constants, and its options with some of them overridden."""
    rest = dict(config)
    constants = dict(rest.pop("kwargs", {}))
    options = {name: value for name, value in rest.items() if value is not None}
    return constants, {**options, **overrides}


def _distinct(settings: _Settings, alternatives: Sequence[_Settings]) -> tuple[_Settings, ...]:
    """Return each alternative once, without the configuration itself.

    An alternative that tunes other constants is left out: some of the launch's would lack a value.
    """
    constants, _ = settings
    others: dict[str, _Settings] = {}
    for other in alternatives:
        if other[0].keys() == constants.keys():
            others[canonical(other)] = other
    others.pop(canonical(settings), None)
    return tuple(others.values())


def _overrides(axes: Axes, option_values: OptionValues) -> list[Config]:
    """Return the sets of options that replace a configuration's own."""
    sets: list[Config] = []
    for options in _option_sets(_as_axes(option_values)):
        for extra in axes.get("options", ({},)):
            sets.append({**options, **extra})
    return sets


def _as_axes(option_values: OptionValues) -> Axes:
    return {name: values for name, values in option_values.items() if values}


def _option_sets(axes: Axes) -> list[dict[str, Any]]:
    names = [axis for axis in _OPTIONS if axis in axes]
    sets: list[dict[str, Any]] = []
    for extra in axes.get("options", ({},)):
        for values in itertools.product(*(axes[name] for name in names)):
            sets.append({**extra, **dict(zip(names, values))})
    return sets
