"""Fake tensors on their way to another process or into a file: their form, and their value where one is known.

torch would share the memory behind them, and there is none.
"""

from __future__ import annotations

import copyreg

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from .known_values import keep_value, value_of


def install() -> None:
    copyreg.pickle(FakeTensor, _reduced)
    torch.utils.data._utils.collate.default_collate_fn_map[torch.Tensor] = _collated


def _reduced(tensor) -> tuple:
    form = (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.fake_device)
    remarks = (tensor.requires_grad, getattr(tensor, "_is_param", False))
    return _rebuilt, (*form, *remarks, _bytes_of(value_of(tensor)))


def _bytes_of(value) -> bytes | None:
    if value is None or value.layout is not torch.strided:
        return None
    with _disable_current_modes():
        return value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _rebuilt(shape, stride, dtype, device, requires_grad: bool, is_parameter: bool, held: bytes | None):
    tensor = torch.empty_strided(shape, stride, dtype=dtype, device=device)
    if is_parameter:
        tensor = torch.nn.Parameter(tensor, requires_grad)
    elif requires_grad:
        tensor.requires_grad_()
    keep_value(tensor, None if held is None else _value(held, shape, dtype))
    return tensor


def _value(held: bytes, shape, dtype):
    with _disable_current_modes():
        if not held:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(held), dtype=torch.uint8).view(dtype).reshape(shape)


def _collated(batch, *, collate_fn_map=None):
    """A batch that a worker of a DataLoader puts together: torch's own lays it out in shared memory."""
    return torch.stack(batch, 0)
