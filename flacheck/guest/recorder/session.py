"""Recording sessions: patches for torch and triton, applied when each is imported.

A program that imports neither is unaffected. The session also finds the reader of each guessed
value, and whether a later launch may depend on it.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

from ..engine import releases, vendor_libraries
from ..engine.driver import TargetDriver
from ..engine.messages import CardRow
from . import inductor
from .journal import Journal
from .launch_description import program
from .recorder import Recorder

# Libraries through which a program reads. A guess belongs to the code that called them.
_GUEST = __name__.partition(".")[0]
_LIBRARIES = (*"torch numpy triton contextlib functools threading".split(), _GUEST)
_BENCHMARKS = "torch._inductor.runtime.benchmarking"
# The environment variable with the settings, for the processes that a captured program starts.
VARIABLE = "FLACHECK_CAPTURE_SETTINGS"


@dataclass(frozen=True)
class Settings:
    """The settings of a session.

    `output` is the launches file. `card` is a row of flacheck's target table with the card's own
    name and size, None for the real device. `packages` maps a folder to the `name==version` whose
    modules lie in it. `package` goes into the header.
    """

    output: str
    card: CardRow | None = None
    packages: dict[str, str] = field(default_factory=dict)
    package: str | None = None
    compiles: bool = False


def install() -> None:
    """Record the launches of this process with the settings in the environment variable."""
    settings = Settings(**json.loads(os.environ[VARIABLE]))
    _Watch(settings).begin()


@contextlib.contextmanager
def session(settings: Settings) -> Iterator[Recorder]:
    """Record until the block ends; fake tensors are valid inside only."""
    watch = _Watch(settings)
    watch.begin()
    try:
        yield watch.recorder
    finally:
        watch.end()


class _Watch(importlib.abc.MetaPathFinder):
    """A finder that finds nothing itself, but reports the import of watched modules."""

    def __init__(self, settings: Settings) -> None:
        self._card = settings.card
        self._compiles = settings.compiles and settings.card is not None
        # A FakeDevice. Its module is imported once torch is there.
        self._device: Any = None
        device = "real"
        if settings.card is not None:
            device = settings.card["gpu"]
        journal = Journal(settings.output, settings.package, device)
        self._readers = Readers(journal.guess)
        is_real = settings.card is None
        self.recorder = Recorder(journal, settings.packages, real=is_real)
        self.recorder.current_guess = self._readers.current_guess
        self._actions = {"torch": self._torch, "triton": self._triton}
        if settings.card is not None:
            self._actions[_BENCHMARKS] = _time_once
            self._actions[vendor_libraries.PROFILER] = vendor_libraries.leave_out_profiler
        if self._compiles:
            self._actions[inductor.HEURISTICS] = lambda: inductor.install(self.recorder)

    def begin(self) -> None:
        sys.meta_path.insert(0, self)
        for name in list(self._actions):
            if name in sys.modules:
                self._run_action(name)

    def end(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self.recorder.remove()
        self.recorder.paths.leave_autograd()
        if self._device is not None:
            self._device.leave()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self._actions:
            return None
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = Announcing(spec.loader, lambda: self._run_action(name))
                return spec
        return None

    def _run_action(self, name: str) -> None:
        action = self._actions.pop(name, None)
        if action:
            action()

    def _torch(self) -> None:
        if self._card is not None:
            from ..fake_cuda.device import FakeDevice

            self._device = FakeDevice(self._card, self._readers.note_guess, self._compiles)
            self._device.enter()
            self._actions |= self._device.compiler_actions
            self.recorder.after_fake_launch = self._device.forget_written
            self.recorder.hold_card = self._device.hold
        # After the fake device, which replaces torch's `apply`.
        self.recorder.paths.follow_autograd()

    def _triton(self) -> None:
        if self._card is not None:
            driver = TargetDriver()
            driver.select(self._card)
            releases.install_driver(driver)
            releases.time_once()
            vendor_libraries.leave_out_blas()
        self.recorder.install()


def _time_once() -> None:
    """Make Inductor's benchmarks, which packages use, run their function once."""
    benchmarks = sys.modules[_BENCHMARKS]
    for name in ("Benchmarker", "TritonBenchmarker", "InductorBenchmarker"):
        kind = getattr(benchmarks, name, None)
        if kind is not None:
            kind.benchmark_gpu = lambda self, call, *_, **how: releases.run_once(call, **how)


class Announcing(importlib.abc.Loader):
    """A module's own loader with a callback after the import."""

    def __init__(self, loader: importlib.abc.Loader, callback: Callable[[], None]) -> None:
        self._loader, self._callback = loader, callback

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The program sees the same loader as without flacheck.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._callback()


class _ThreadsReads(threading.local):
    """The guesses that the functions of a thread have read."""

    def __init__(self) -> None:
        # Maps the outermost frame of the reader's package to the place of the read. Frames are
        # kept, not their ids, which could be used again.
        self.following: dict[FrameType, str] = {}


class Readers:
    """The readers of guessed values.

    `note(at, kind)` is called for each guess, with `module:line` of the program and the kind of
    value.
    """

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self._note = note
        self._thread = _ThreadsReads()

    def note_guess(self, kind: str) -> None:
        """Record that the program reads a guessed value now, directly or through a library."""
        frames = []
        for frame in _stack(sys._getframe(1)):
            if _package(frame) not in _LIBRARIES:
                frames.append(frame)
        if not frames:
            return
        name = _name(frames[0])
        if name == "__main__":
            name = program()
        at = f"{name}:{frames[0].f_lineno}"
        self._note(at, kind)
        package = _package(frames[0])
        for frame in reversed(frames):
            if _package(frame) == package:
                self._thread.following[frame] = at
                break

    def current_guess(self) -> str | None:
        """Return the place of the last guess on which current code may depend, or None.

        The last guess counts until its reader has returned to another package.
        """
        following = self._thread.following
        if following:
            running = set(_stack(sys._getframe(1)))
            for frame in following.keys() - running:
                del following[frame]
        return next(reversed(following.values()), None)


def _stack(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _package(frame: FrameType) -> str:
    return _name(frame).partition(".")[0]


def _name(frame: FrameType) -> str:
    return frame.f_globals.get("__name__") or "?"
