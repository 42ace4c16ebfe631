"""A launch that a program made, as it was recorded: on tensors like its own, with other numbers in
them.

Floats are drawn from a normal distribution, small enough for gates and decays; integers are the
program's own.
"""

from __future__ import annotations

from ..engine import releases
from . import values
from .timed_launch import TimedLaunch

_SPREAD = 0.1
_SEED = 0


def launch(request: dict, kernel, device: str) -> TimedLaunch:
    """`request` holds `launch` with what heuristics gave among its arguments, `options`, and
    `memory`: `storages` in bytes, and `tensors` by argument.
    """
    import torch
    import triton.language as tl

    torch.manual_seed(_SEED)
    function = releases.undecorated(kernel)
    made, names = _Tensors(request["memory"], device), function.fn.__globals__
    arguments = {
        name: made.value(name, spec, tl, names) for name, spec in request["launch"]["args"].items()
    }
    options = {
        name: values.value({"constexpr": each}, tl, names)
        for name, each in request["options"].items()
    }
    every = {**options, **arguments, "warmup": False}
    return TimedLaunch(function, (), every, list(made.storages.values()), made_up=True)


class _Tensors:
    """Storages as flat tensors, each made when the first tensor that lies in it is asked for."""

    def __init__(self, memory: dict, device: str) -> None:
        self._sizes, self._placed, self._device = memory["storages"], memory["tensors"], device
        self.storages: dict = {}

    def value(self, path: str, spec, language, names):
        """An argument; `path` is its name, with its place where it stands in a tuple."""
        if not isinstance(spec, dict):
            return values.value(spec, language, names)
        if "tuple" in spec:
            return tuple(
                self.value(f"{path}[{i}]", item, language, names)
                for i, item in enumerate(spec["tuple"])
            )
        if "descriptor" in spec:
            held = {
                name: value
                for name, value in spec["descriptor"].items()
                if name not in ("dtype", "align")
            }
            return values.descriptor(self._tensor(path, spec["descriptor"]["dtype"]), **held)
        return (
            self._tensor(path, spec["dtype"])
            if "dtype" in spec
            else values.value(spec, language, names)
        )

    def _tensor(self, path: str, dtype: str):
        import torch

        placed, kind = self._placed[path], getattr(torch, values.torch_name(dtype))
        flat = self._storage(placed["storage"], kind).view(kind)
        place = placed["shape"], placed["strides"], placed["offset"]
        if (
            placed["values"] is not None
        ):  # into an expanded tensor, too, which has elements in one place
            where = torch.arange(flat.numel()).as_strided(*place).reshape(-1)
            known = torch.tensor(placed["values"], dtype=torch.int64)
            flat[where.to(flat.device)] = known.to(flat.device, kind)
        return flat.as_strided(*place)

    def _storage(self, place: int, kind):
        """All of a storage, of the kind of the first tensor in it."""
        import torch

        if place not in self.storages:
            count = self._sizes[place] // kind.itemsize
            self.storages[place] = _filled(torch.empty(count, dtype=kind, device=self._device))
        return self.storages[place]


def _filled(flat):
    """Integers that nobody recorded are zero; the narrowest floats cannot be drawn themselves."""
    if not flat.dtype.is_floating_point:
        return flat.zero_()
    if flat.dtype.itemsize > 1:
        return flat.normal_(0, _SPREAD)
    return flat.copy_(flat.float().normal_(0, _SPREAD))
