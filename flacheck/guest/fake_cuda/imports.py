"""The card that a package meets while a worker imports it: the one that its capture had, where
tensors on `cuda` can be made at module level. Nothing else in a worker needs torch."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

from ..engine.messages import CardRow
from ..workers import torch_cuda
from .device import FakeDevice, UntestedTorch, UnusableTorch


class PackageCard:
    """What a worker named by its config turns to a card, and enters for an import."""

    def __init__(self) -> None:
        # What imitation needs of torch, and torch of others, before packages are put in the way of
        # imports: a package may bring the same dependencies. An older torch has other modules.
        for name in ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self._device: FakeDevice | None = None
        self._untested = False

    def turn(self, card: CardRow) -> None:
        """From now on torch speaks of this card."""
        if self._device is not None or self._untested:
            torch_cuda.turn(card)
            return
        try:
            self._device = FakeDevice(card, lambda kind: None)
        except (UntestedTorch, UnusableTorch):
            # Most packages make no tensors when they are imported.
            self._untested = True
            torch_cuda.turn(card)

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """While this lasts, tensors are fake."""
        if self._device is None:
            yield
            return
        self._device.enter()
        try:
            yield
        finally:
            self._device.leave()
