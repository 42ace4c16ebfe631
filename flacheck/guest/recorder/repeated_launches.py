"""Launches that were written before. Programs that time a kernel launch it tens of thousands of
times with equal arguments: all that decides what is written of a launch is in a key that costs
little, and what was written once is found by it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..engine.messages import Kernel
from .forms import Same, UnkeyableValue, add_argument, add_constant

Key = tuple[Any, ...]
# Arguments of `run` that are neither the kernel's nor options of the compiler.
SWITCHES = ("grid", "warmup")


@dataclass(frozen=True)
class WrittenLaunch:
    """The lines that a launch came to: their identities in the journal, one for the configurations
    that see equal arguments; `options` are those of the last configuration."""

    function: Kernel
    kernel: str
    package: str | None
    identities: tuple[str, ...]
    options: Mapping[str, Any]


class RepeatedLaunches:
    """What was written, by key."""

    def __init__(self) -> None:
        self._written: dict[Key, WrittenLaunch] = {}
        self._parameters: dict[Same, _Parameters] = {}
        # By the ids of configurations; and a number for each content that such have had.
        self._configs: dict[tuple[int, ...], _Configs] = {}
        self._contents: dict[Key, int] = {}

    def written(self, key: Key | None) -> WrittenLaunch | None:
        """None also for a launch that can have no key."""
        if key is None:
            return None
        return self._written.get(key)

    def keep(self, key: Key | None, written: WrittenLaunch) -> None:
        if key is not None:
            self._written[key] = written

    def add_arguments(
        self, function: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], key: list[Any]
    ) -> None:
        """Raises UnkeyableValue where an argument can be in no key."""
        parameters = self._parameters.get(Same(function))
        if parameters is None:
            parameters = self._parameters[Same(function)] = _Parameters(function)
        for add, value in zip(parameters.positions, args):
            add(value, key)
        for name, value in kwargs.items():
            if name not in SWITCHES:
                key.append(name)
                # What is no parameter is an option, and constant.
                parameters.names.get(name, add_constant)(value, key)

    def add_configs(self, configs: Sequence[Any], key: list[Any]) -> None:
        """Raises UnkeyableValue where a configuration can be in no key."""
        ids = tuple(map(id, configs))
        known = self._configs.get(ids)
        if known is None or not known.hold():
            content = _content(configs)
            number = self._contents.setdefault(content, len(self._contents))
            known = self._configs[ids] = _Configs(configs, number)
        key.append(known.number)


class _Parameters:
    """How each argument of a kernel is described, by position and by name."""

    def __init__(self, function: Kernel) -> None:
        self.positions = [
            add_constant if parameter.is_constexpr else add_argument
            for parameter in function.params
        ]
        self.names = dict(zip(function.arg_names, self.positions))


class _Configs:
    """Configurations as they were when `number` was given to what they say; kept, so that no others
    get their ids."""

    def __init__(self, configs: Sequence[Any], number: int) -> None:
        self.number = number
        self._configs = list(configs)
        self._values = [_values(config) for config in configs]

    def hold(self) -> bool:
        """Whether nobody has changed one since."""
        for config, values in zip(self._configs, self._values):
            now = _values(config)
            if len(now) != len(values) or not all(map(operator.is_, now, values)):
                return False
        return True


def _values(config: Any) -> list[Any]:
    return [*vars(config).values(), *config.kwargs, *config.kwargs.values()]


def _content(configs: Sequence[Any]) -> Key:
    """Raises UnkeyableValue."""
    key: list[Any] = []
    for config in configs:
        key += (type(config), len(config.kwargs))
        for name, value in [*config.kwargs.items(), *config.all_kwargs().items()]:
            # A list can be changed without being another, and so can one in a tuple.
            if isinstance(value, (list, tuple)):
                raise UnkeyableValue
            key.append(name)
            add_constant(value, key)
    return tuple(key)
