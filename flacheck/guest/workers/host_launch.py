"""The launch that a host function of our own kernels makes, on the family's own random inputs.

Memory that nobody wrote holds NaN, so that a result which is left out shows.
"""

from __future__ import annotations

import contextlib
import os

from ..engine.loader import _module_from
from .timed_launch import TimedLaunch


class _Reached(Exception):
    """The launch was made: what the host function does then is of no interest."""


def launch(request: dict, corpus: str, device: str) -> TimedLaunch:
    """The first launch of the kernel; what comes before it runs in the first configuration of each."""
    import torch

    family, name = request["kernel"]["corpus"], request["kernel"]["name"]
    module = _module_from(os.path.join(corpus, family + ".py"), "flacheck_kernels_" + family)
    for each in module.KERNELS:
        getattr(module, each).configs = getattr(module, each).configs[:1]
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[request["dtype"]]
    inputs = module.inputs(**request["shape"], dtype=dtype, device=device)
    seen: list = []
    with _watched(getattr(module, name), seen), _unwritten_is_nan(), contextlib.suppress(_Reached):
        getattr(module, module.KERNELS[name]["form"])(**inputs)
    return seen[0]


@contextlib.contextmanager
def _watched(tuner, seen: list):
    """While it lasts, an autotuner's launch is kept instead of made."""

    def watched(*args, **kwargs):
        tensors = [value for value in [*args, *kwargs.values()] if hasattr(value, "data_ptr")]
        seen.append(TimedLaunch(tuner.fn, args, kwargs, tensors))
        raise _Reached

    tuner.run = watched
    try:
        yield
    finally:
        del tuner.run


@contextlib.contextmanager
def _unwritten_is_nan():
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills what torch.empty returns
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
