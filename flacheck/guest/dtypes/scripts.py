"""A user's own program, followed from its first call of a module.

Runs to compare with differ from this call on: the module's parameters and the arguments have
another dtype and autocast another setting, whatever the program does around the call.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..inference.arguments import DTYPES
from ..search.attempts import CaughtError, attempt
from .follower import Follower, name_module, name_tensors, short
from .runs import Precision, collect_exceptions, report_run

_NAMES = {str(dtype).removeprefix("torch."): name for name, dtype in DTYPES.items()}


class _ModeFound(BaseException):
    """Raised to end a program after its first call of a module."""


class Program:
    """A program to run in a mode.

    `words` are a script or `-m` and a module, and their arguments. `mode` is the mode of its
    modules, None for the program's own; `learned_mode` is the mode of its first call.
    """

    def __init__(self, words: Sequence[str], mode: Precision | None, follower: Follower) -> None:
        self._words, self._mode, self._follower = list(words), mode, follower
        self._inside = False
        # References keep these modules alive, so that no id is reused.
        self._registered_modules: list[torch.nn.Module] = []
        self.learned_mode: Precision | None = None

    def learn(self, seconds: float) -> CaughtError | None:
        """Run up to the first call of a module, and return an error that comes before it."""
        outcome = attempt(lambda: self._run(only_learn=True), seconds)
        if isinstance(outcome, CaughtError) and outcome.kind != "SystemExit":
            return outcome
        return None

    def follow(self, mode: Precision, seconds: float) -> dict[str, Any]:
        """Return the report of one run."""
        follower = self._follower
        follower.begin()
        follower.phase = "forward"
        exceptions: list[BaseException] = []

        def run() -> None:
            with collect_exceptions(exceptions), follower:
                self._run()

        outcome: Any = attempt(run, seconds)
        # A program may exit by itself, and the record of a long run is long enough.
        if isinstance(outcome, CaughtError) and outcome.kind in ("SystemExit", "TooLong"):
            outcome = None
        stage = follower.phase
        return report_run(mode, follower, stage, outcome, exceptions)

    def _run(self, only_learn: bool = False) -> None:
        module = torch.nn.Module.__call__
        backward, of_tensor = torch.autograd.backward, torch.Tensor.backward

        def call(layer: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return module(layer, *args, **kwargs)
            self._register(layer)
            if only_learn:
                raise _ModeFound
            self._inside = True
            try:
                with self._autocast():
                    args, kwargs = self._convert(args), self._convert(kwargs)
                    name_tensors("argument", [*zip(map(str, range(len(args))), args)])
                    name_tensors("argument", kwargs.items())
                    return module(layer, *args, **kwargs)
            finally:
                self._inside = False

        def back(function: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                self._follower.phase = "backward"
                result = function(*args, **kwargs)
                # After an error the phase stays, because the report contains it.
                self._follower.phase = "forward"
                return result

            return run

        torch.nn.Module.__call__ = call
        torch.autograd.backward = back(backward)
        torch.Tensor.backward = back(of_tensor)
        try:
            with contextlib.suppress(_ModeFound):
                self._start()
        finally:
            torch.nn.Module.__call__ = module
            torch.autograd.backward = backward
            torch.Tensor.backward = of_tensor

    def _start(self) -> None:
        words = self._words
        folder = os.getcwd()
        if words[0] != "-m":
            folder = os.path.dirname(os.path.abspath(words[0]))
        sys.path.insert(0, folder)
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")

    def _register(self, layer: torch.nn.Module) -> None:
        """Set up a module at its first call by the program."""
        if any(layer is each for each in self._registered_modules):
            return
        self._registered_modules.append(layer)
        floating = [p for p in layer.parameters() if p.is_floating_point()]
        if self.learned_mode is None and floating:
            autocast = "off"
            if torch.is_autocast_enabled("cuda"):
                autocast = _name(torch.get_autocast_dtype("cuda"))
            self.learned_mode = Precision(autocast, _name(floating[0].dtype))
        if self._mode is not None:
            layer.to(dtype=DTYPES[self._mode.params])
        name_module(layer)

    def _convert(self, arguments: Any) -> Any:
        if self._mode is None:
            return arguments
        dtype = DTYPES[self._mode.params]

        def convert(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                return value.to(dtype)
            return value

        return tree_map(convert, arguments)

    @contextlib.contextmanager
    def _autocast(self) -> Iterator[None]:
        if self._mode is None:
            yield
        elif self._mode.autocast == "off":
            with torch.autocast("cuda", enabled=False):
                yield
        else:
            with torch.autocast("cuda", DTYPES[self._mode.autocast]):
                yield


def _name(dtype: torch.dtype) -> str:
    return _NAMES.get(short(dtype), short(dtype))
