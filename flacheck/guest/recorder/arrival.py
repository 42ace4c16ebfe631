"""Waits for torch and triton to be imported, and patches each when it is: a program without them
pays nothing.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys

from .journal import Journal
from .readers import Readers
from .recorder import Recorder
from .settings import Settings


class Arrival(importlib.abc.MetaPathFinder):
    """A finder that finds nothing itself: it has a watched module call back once it is there."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._device = None
        journal = Journal(settings)
        self._readers = Readers(journal.guess)
        self.recorder = Recorder(journal, real=settings.card is None)
        self.recorder.followed = self._readers.followed
        self._actions = {"torch": self._torch, "triton": self._triton}

    def watch(self) -> None:
        sys.meta_path.insert(0, self)
        for name in ("torch", "triton"):
            if name in sys.modules:
                self._arrived(name)

    def find_spec(self, name: str, path=None, target=None):
        if name not in self._actions:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        spec = next(
            filter(
                None, (f.find_spec(name, path, target) for f in others if hasattr(f, "find_spec"))
            ),
            None,
        )
        if spec is not None and spec.loader is not None:
            spec.loader = _Announcing(spec.loader, lambda: self._arrived(name))
        return spec

    def _arrived(self, name: str) -> None:
        action = self._actions.pop(name, None)
        if action:
            action()

    def _torch(self) -> None:
        if self._settings.card is not None:
            from ..fake_cuda.device import FakeDevice

            self._device = FakeDevice(self._settings.card, self._readers.guessed)
            self._device.enter()
            self.recorder.launched = self._device.launched

    def _triton(self) -> None:
        if self._settings.card is not None:
            from ..engine import releases
            from ..engine.driver import TargetDriver

            driver = TargetDriver()
            driver.select(self._settings.card)
            releases.install_driver(driver)
        self.recorder.install()

    def leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self.recorder.remove()
        if self._device is not None:
            self._device.leave()


class _Announcing(importlib.abc.Loader):
    """A module's own loader, and a word to say when it is done."""

    def __init__(self, loader, done) -> None:
        self._loader, self._done = loader, done

    def __getattr__(self, name: str):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._done()
