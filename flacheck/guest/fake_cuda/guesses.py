"""What a program is told of values that nobody computed: that all is as it should be, so that it
goes on.

A comparison holds, a mask takes everything, a difference is zero; nothing is infinite or not a
number.
"""

from __future__ import annotations

import math
from typing import Any

import torch

_DOUBTED = "_flacheck_doubted"
_aten = torch.ops.aten
# What asks whether something is wrong; what may ask; and what hands such an answer on.
_RARE = {_aten.isnan.default, _aten.isinf.default, _aten.isposinf.default, _aten.isneginf.default}
_COMPARING = {_aten.eq.Scalar, _aten.eq.Tensor, _aten.ne.Tensor}
_FOLLOWING = {
    *(_aten.any.default, _aten.any.dim, _aten.any.dims, _aten.all.default),
    *(_aten.logical_or.default, _aten.logical_and.default),
    *(_aten.bitwise_or.Tensor, _aten.bitwise_and.Tensor),
    *(_aten.sum.default, _aten.sum.dim_IntList),
    *(_aten.view.default, _aten.detach.default, _aten._to_copy.default),
}
_OF_INTEREST = _RARE | _COMPARING | _FOLLOWING


def scalar(tensor: torch.Tensor) -> bool | int | float:
    """What `.item()` gives."""
    if tensor.is_floating_point():
        return 0.0
    if tensor.dtype == torch.bool:
        return not _is_doubted(tensor)
    return int(not _is_doubted(tensor))


def stand_in(tensor: torch.Tensor) -> torch.Tensor:
    """A real tensor of that form, for an operation whose form depends on what is in it."""
    fill = int(not _is_doubted(tensor))
    return torch.full(tensor.shape, fill, dtype=tensor.dtype)


def _is_doubted(tensor: object) -> bool:
    """Whether it says of each element something that should not be so."""
    return getattr(tensor, _DOUBTED, False)


def remark(operator: Any, args: tuple[Any, ...], result: object) -> None:
    """Note where an operation asks for what should not be so, and where its answer goes."""
    if operator in _OF_INTEREST and isinstance(result, torch.Tensor) and _asks(operator, args):
        setattr(result, _DOUBTED, True)


def _asks(operator: Any, args: tuple[Any, ...]) -> bool:
    if operator in _RARE:
        return True
    # A value differs from itself only when it is not a number.
    if operator is _aten.ne.Tensor:
        return args[0] is args[1]
    if operator in _COMPARING:
        return isinstance(args[1], float) and math.isinf(args[1])
    tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
    return all(_is_doubted(tensor) for tensor in tensors)
