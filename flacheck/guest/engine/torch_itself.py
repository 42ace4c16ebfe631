"""The real torch beside a compiler, so that a package's modules are what they are where they run.

Its CPU build will do: `torch.cuda` speaks of a card that is not there, and nothing is computed or
compiled by torch.
"""

from __future__ import annotations

import torch

from ..fake_cuda import cuda, device

device.install_compilers(torch)


def turn(card: dict) -> None:
    """From now on torch speaks of this card."""
    cuda.install(card)
