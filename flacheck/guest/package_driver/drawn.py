"""Numbers that a package draws at random. Kernels take them as seeds, so they stand in launches: a
capture is the same on every machine only where each call draws the same ones."""

from __future__ import annotations

import random
import sys

import torch

_SEED = 0


def start_over() -> None:
    """From now on Python, NumPy and torch draw what they draw after every such call."""
    random.seed(_SEED)
    torch.default_generator.manual_seed(_SEED)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_SEED)
