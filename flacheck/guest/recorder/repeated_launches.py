"""Launches that were written before.

A program that times a kernel launches it tens of thousands of times with equal arguments. A cheap
key holds everything that decides the line of a launch, and finds the lines that were written once.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..engine.messages import Kernel
from .forms import Same, UnkeyableValue, add_argument, add_constant

Key = tuple[Any, ...]
# Arguments of `run` that are neither parameters of the kernel nor options of the compiler.
SWITCHES = ("grid", "warmup")


@dataclass(frozen=True)
class WrittenLaunch:
    """The lines of a launch, by their identities in the journal.

    There is a line for each group of configurations with equal arguments. `options` are those of
    the last configuration.
    """

    function: Kernel
    kernel: str
    package: str | None
    identities: tuple[str, ...]
    options: Mapping[str, Any]


class RepeatedLaunches:
    """The written launches by key."""

    def __init__(self) -> None:
        self._written: dict[Key, WrittenLaunch] = {}
        self._parameters: dict[Same, _Parameters] = {}
        # By the ids of configurations. Below, a number for each content of such configurations.
        self._configs: dict[tuple[int, ...], _Configs] = {}
        self._contents: dict[Key, int] = {}

    def find(self, key: Key | None) -> WrittenLaunch | None:
        """Return the written launch of a key; None without one, or without a key."""
        if key is None:
            return None
        return self._written.get(key)

    def keep(self, key: Key | None, launch: WrittenLaunch) -> None:
        if key is not None:
            self._written[key] = launch

    def add_arguments(
        self,
        function: Kernel,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: list[Any],
    ) -> None:
        """Add a launch's arguments to the key, or raise UnkeyableValue."""
        parameters = self._parameters.get(Same(function))
        if parameters is None:
            parameters = self._parameters[Same(function)] = _Parameters(function)
        for add, value in zip(parameters.positions, args):
            add(value, key)
        for name, value in kwargs.items():
            if name not in SWITCHES:
                key.append(name)
                # Any argument that is not a parameter is an option, and constant.
                parameters.names.get(name, add_constant)(value, key)

    def add_configs(self, configs: Sequence[Any], key: list[Any]) -> None:
        """Add configurations to the key, or raise UnkeyableValue."""
        ids = tuple(map(id, configs))
        entry = self._configs.get(ids)
        if entry is None or not entry.hold():
            content = _content(configs)
            number = self._contents.setdefault(content, len(self._contents))
            entry = self._configs[ids] = _Configs(configs, number)
        key.append(entry.number)


class _Parameters:
    """The functions that add a kernel's arguments to a key, by position and by name."""

    def __init__(self, function: Kernel) -> None:
        self.positions = [
            add_constant if parameter.is_constexpr else add_argument
            for parameter in function.params
        ]
        self.names = dict(zip(function.arg_names, self.positions))


class _Configs:
    """Configurations as they were when their content got its `number`.

    They are kept, so that no others get their ids.
    """

    def __init__(self, configs: Sequence[Any], number: int) -> None:
        self.number = number
        self._configs = list(configs)
        self._values = [_values(config) for config in configs]

    def hold(self) -> bool:
        """Return True if no configuration has changed."""
        for config, values in zip(self._configs, self._values):
            now = _values(config)
            if len(now) != len(values):
                return False
            if not all(map(operator.is_, now, values)):
                return False
        return True


def _values(config: Any) -> list[Any]:
    values = list(vars(config).values())
    values += config.kwargs
    values += config.kwargs.values()
    return values


def _content(configs: Sequence[Any]) -> Key:
    """Return the content of configurations as a key, or raise UnkeyableValue."""
    key: list[Any] = []
    for config in configs:
        key += (type(config), len(config.kwargs))
        items = list(config.kwargs.items())
        items += config.all_kwargs().items()
        for name, value in items:
            # A list can change in place, also one in a tuple.
            if isinstance(value, (list, tuple)):
                raise UnkeyableValue
            key.append(name)
            add_constant(value, key)
    return tuple(key)
