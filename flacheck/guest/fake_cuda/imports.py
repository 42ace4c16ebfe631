"""The card under which a worker imports a package: the one of its capture.

With it, tensors on `cuda` can be made at module level. Nothing else in a worker needs torch.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

from ..engine.messages import CardRow
from ..workers import torch_cuda
from .device import FakeDevice, UntestedTorch, UnusableTorch


class PackageCard:
    """The card of a worker, as its config names it: the worker selects and enters it."""

    def __init__(self) -> None:
        # The modules that imitation needs are imported before packages are on the path, because a
        # package may bring the same dependencies. An older torch has other modules.
        for name in ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self._device: FakeDevice | None = None
        self._untested = False

    def turn(self, card: CardRow) -> None:
        """Make torch use this card from now on."""
        if self._device is not None or self._untested:
            torch_cuda.turn(card)
            return
        try:
            self._device = FakeDevice(card, lambda kind: None)
        except (UntestedTorch, UnusableTorch):
            # Most packages make no tensors at import.
            self._untested = True
            torch_cuda.turn(card)

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """Make tensors fake until the block ends."""
        if self._device is None:
            yield
            return
        self._device.enter()
        try:
            yield
        finally:
            self._device.leave()
