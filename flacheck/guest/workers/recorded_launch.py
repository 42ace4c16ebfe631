"""A launch that a program made, as it was recorded: on tensors like its own, with other numbers in
them.

Floats are drawn from a normal distribution; integers are the program's own.
"""

from __future__ import annotations

from typing import Any

from ..engine import releases
from ..engine.messages import BenchRequest, Kernel
from . import values
from .timed_launch import TimedLaunch

# Small enough for gates and decays, which kernels add up and exponentiate.
_SPREAD = 0.1
# Every process draws the same numbers, so that its results can be compared with another's.
_SEED = 0


def recorded_launch(request: BenchRequest, kernel: Kernel, device: str) -> TimedLaunch:
    """The request's `launch` has what heuristics gave among its arguments."""
    import torch

    torch.manual_seed(_SEED)
    function = releases.undecorated(kernel)
    names = function.fn.__globals__
    made = _Tensors(request["memory"], device)
    kwargs = values.constants(request["options"], names)
    kwargs |= values.arguments(request["launch"]["args"], names, made.tensor)
    kwargs["warmup"] = False
    return TimedLaunch(function, (), kwargs, list(made.storages.values()), made_up=True)


class _Tensors:
    """Storages as flat tensors, each made when the first tensor that lies in it is asked for."""

    def __init__(self, memory: dict[str, Any], device: str) -> None:
        self._sizes, self._placed, self._device = memory["storages"], memory["tensors"], device
        self.storages: dict[int, Any] = {}

    def tensor(self, path: str, dtype: str, align: int) -> Any:
        """A tensor where the program's lay in its storage, and so aligned as that one was."""
        import torch

        placed, kind = self._placed[path], getattr(torch, values.TORCH_NAMES[dtype])
        flat = self._storage(placed["storage"], kind).view(kind)
        place = placed["shape"], placed["strides"], placed["offset"]
        if placed["values"] is not None:
            # By their indices: an expanded tensor has many elements in one place.
            where = torch.arange(flat.numel()).as_strided(*place).reshape(-1)
            known = torch.tensor(placed["values"], dtype=torch.int64)
            flat[where.to(flat.device)] = known.to(flat.device, kind)
        return flat.as_strided(*place)

    def _storage(self, number: int, kind: Any) -> Any:
        """All of a storage, of the kind of the first tensor in it."""
        import torch

        if number not in self.storages:
            count = self._sizes[number] // kind.itemsize
            self.storages[number] = _filled(torch.empty(count, dtype=kind, device=self._device))
        return self.storages[number]


def _filled(flat: Any) -> Any:
    """Integers that nobody recorded are zero; the narrowest floats cannot be drawn themselves."""
    if not flat.dtype.is_floating_point:
        return flat.zero_()
    if flat.dtype.itemsize > 1:
        return flat.normal_(0, _SPREAD)
    return flat.copy_(flat.float().normal_(0, _SPREAD))
