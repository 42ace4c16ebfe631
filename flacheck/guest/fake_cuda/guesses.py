"""What a program is told of values that nobody computed: that all is as it should be, so that it
goes on.

A comparison holds, a mask takes everything, a difference is zero; nothing is infinite or not a
number.
"""

from __future__ import annotations

import math

import torch

_DOUBTED = "_flacheck_doubted"
_aten = torch.ops.aten
_RARE = {_aten.isnan.default, _aten.isinf.default, _aten.isposinf.default, _aten.isneginf.default}
_COMPARING = {_aten.eq.Scalar, _aten.eq.Tensor, _aten.ne.Tensor}
_FOLLOWING = {
    _aten.any.default,
    _aten.any.dim,
    _aten.any.dims,
    _aten.all.default,
    _aten.logical_or.default,
    _aten.logical_and.default,
    _aten.bitwise_or.Tensor,
    _aten.bitwise_and.Tensor,
    _aten.sum.default,
    _aten.sum.dim_IntList,
    _aten.view.default,
    _aten.detach.default,
    _aten._to_copy.default,
}
_OF_INTEREST = _RARE | _COMPARING | _FOLLOWING


def scalar(tensor):
    """What `.item()` gives."""
    if tensor.is_floating_point():
        return 0.0
    if tensor.dtype == torch.bool:
        return not doubted(tensor)
    return 0 if doubted(tensor) else 1


def stand_in(tensor):
    """A real tensor of that form, for an operation whose form depends on what is in it."""
    fill = torch.zeros if doubted(tensor) else torch.ones
    return fill(tensor.shape, dtype=tensor.dtype)


def doubted(tensor) -> bool:
    """Whether it says of each element something that should not be so."""
    return getattr(tensor, _DOUBTED, False)


def remark(operator, args, result) -> None:
    """Note where an operation asks for what should not be so, and where its answer goes."""
    if operator in _OF_INTEREST and isinstance(result, torch.Tensor) and _asks(operator, args):
        setattr(result, _DOUBTED, True)


def _asks(operator, args) -> bool:
    if operator in _RARE:
        return True
    if operator is _aten.ne.Tensor:
        return args[0] is args[1]
    if operator in _COMPARING:
        return isinstance(args[1], float) and math.isinf(args[1])
    tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
    return all(doubted(tensor) for tensor in tensors)
