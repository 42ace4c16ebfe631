"""Seeds of random numbers.

Packages pass random numbers to kernels as seeds, so these numbers are part of launches. A capture
is equal on all machines only if each call draws equal numbers.
"""

from __future__ import annotations

import random
import sys

import torch

_SEED = 0


def reset_seeds() -> None:
    """Seed the generators of Python, NumPy and torch."""
    random.seed(_SEED)
    torch.default_generator.manual_seed(_SEED)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_SEED)
