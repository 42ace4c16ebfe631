"""Where a program puts its tensors: a device without a number, or a number alone, is the card that
is not there.

torch asks the device's guard for the number, and the stand-in for CUDA's knows none: a tensor that
is already where it is to go would be copied, and a parameter that was copied is no leaf.
"""

from __future__ import annotations

import functools

import torch

_CARD = torch.device("cuda", 0)
_FACTORIES = (
    "empty",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "randint",
    "randperm",
    "arange",
    "linspace",
    "eye",
    "tensor",
    "as_tensor",
    "empty_like",
    "zeros_like",
    "ones_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "empty_strided",
)


def install() -> None:
    torch.Tensor.to = _placing(torch.Tensor.to)
    torch.Tensor.cuda = _cuda
    torch.nn.Module.to = _placing(torch.nn.Module.to)
    for name in _FACTORIES:
        setattr(torch, name, _made(getattr(torch, name)))


def _placing(plain):
    """A method whose first argument may be a device."""

    @functools.wraps(plain)
    def to(self, *args, **kwargs):
        return plain(self, *map(_numbered, args[:1]), *args[1:], **_numbered_device(kwargs))

    return to


def _made(plain):
    """A function that takes a device by name; most calls give none, or one with its number."""

    @functools.wraps(plain)
    def factory(*args, **kwargs):
        return (
            plain(*args, **_numbered_device(kwargs))
            if type(kwargs.get("device")) is int
            else plain(*args, **kwargs)
        )

    return factory


def _cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
    place = _CARD if device is None else device
    return self.to(place, non_blocking=non_blocking, memory_format=memory_format)


def _numbered_device(kwargs: dict) -> dict:
    return {**kwargs, "device": _numbered(kwargs["device"])} if "device" in kwargs else kwargs


def _numbered(place):
    if type(place) is int:
        return torch.device("cuda", place)
    if isinstance(place, str) and place == "cuda":
        return _CARD
    if isinstance(place, torch.device) and place.type == "cuda" and place.index is None:
        return _CARD
    return place
