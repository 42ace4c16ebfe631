"""Where a program puts its tensors: a device without a number, or a number alone, is the card that
is not there. torch asks the device's guard for the number, and the stand-in for CUDA's knows none:
a tensor that is already where it is to go would be copied, and a parameter that was copied is no
leaf."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .known_values import keep_value, value_of

_CARD = torch.device("cuda", 0)
# What makes tensors and takes a device for them.
_FACTORIES = """
empty zeros ones full rand randn randint randperm arange linspace eye tensor as_tensor empty_like
zeros_like ones_like full_like rand_like randn_like randint_like empty_strided
""".split()


def install() -> None:
    """Have torch's functions put tensors on the card that is not there."""
    torch.Tensor.to = _placing(torch.Tensor.to)
    torch.Tensor.cuda = _cuda
    torch.nn.Module.to = _placing(torch.nn.Module.to)
    for name in _FACTORIES:
        setattr(torch, name, _making(getattr(torch, name)))
    torch.utils.swap_tensors = _swap_tensors
    torch.Tensor.pin_memory = lambda self, *_: self
    torch.Tensor.is_pinned = lambda self, *_: False
    torch.Tensor.record_stream = lambda self, *_: None


def _placing(plain: Callable[..., Any]) -> Any:
    """A method whose first argument may be a device."""

    @functools.wraps(plain)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = _numbered(kwargs["device"])
        return plain(self, *map(_numbered, args[:1]), *args[1:], **kwargs)

    return to


def _making(plain: Callable[..., Any]) -> Any:
    """A function that takes a device by name; most calls give none, or one with its number."""

    @functools.wraps(plain)
    def make(*args: Any, **kwargs: Any) -> Any:
        if type(kwargs.get("device")) is int:
            kwargs["device"] = torch.device("cuda", kwargs["device"])
        return plain(*args, **kwargs)

    return make


def _cuda(self: Any, device: Any = None, non_blocking: bool = False, **form: Any) -> Any:
    if device is None:
        device = _CARD
    return self.to(device, non_blocking=non_blocking, **form)


def _numbered(place: Any) -> Any:
    """A device with its number; what is no device (a dtype, another tensor) as it is."""
    if type(place) is int:
        return torch.device("cuda", place)
    if isinstance(place, str) and place == "cuda":
        return _CARD
    if isinstance(place, torch.device) and place.type == "cuda" and place.index is None:
        return _CARD
    return place


def _swap_tensors(mine: Any, other: Any) -> None:
    """A module moves its parameters so; torch's own gives up on fake ones with references."""
    mine.data = other
    mine.fake_device = other.fake_device
    keep_value(mine, value_of(other))
