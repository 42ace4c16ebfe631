"""Constants that float16 cannot hold, detected without data.

An operation with such a constant runs on zeros: the result is infinite, or torch rejects the
constant.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

_LARGEST = 65504.0
_OVERFLOW_MESSAGE = "without overflow"
# What operations raise for operands of another shape or dtype, or that a CPU does not support.
REFUSALS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError)


@contextlib.contextmanager
def on_the_side() -> Iterator[None]:
    """Calculate on real tensors, which no mode follows."""
    with _disable_current_modes(), torch.autocast("cuda", enabled=False), torch.no_grad():
        yield


def overflow(function: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the constant that overflows in a call with a float16 result, with the evidence.

    Return None if every constant fits, or without evidence.
    """
    large = [value for value in _numbers(args, kwargs) if _LARGEST < abs(value) < math.inf]
    if not large:
        return None
    evidence = _find_evidence(function, args, kwargs)
    if evidence is None:
        return None
    return {"constant": large[0], "shown": evidence}


def _numbers(args: Any, kwargs: Mapping[str, Any]) -> Iterator[float]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, float) or type(value) is int:
            yield float(value)


def _find_evidence(function: Any, args: Any, kwargs: Mapping[str, Any]) -> str | None:
    """Return the result of a call on zeros, if it shows an overflow.

    The call runs on real tensors with one element for each dimension.
    """

    def small(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype == torch.bool:
            # A mask that selects everything makes the constant visible in the result.
            return torch.ones([1] * value.dim(), dtype=torch.bool)
        return torch.zeros([1] * value.dim(), dtype=value.dtype)

    try:
        with on_the_side():
            result = function(*tree_map(small, list(args)), **tree_map(small, dict(kwargs)))
            if _is_real_half(result) and torch.isinf(result).all():
                return "infinite"
    except REFUSALS as error:
        if _OVERFLOW_MESSAGE in str(error):
            return str(error).splitlines()[0]
    return None


def _is_real_half(result: Any) -> bool:
    if not isinstance(result, torch.Tensor):
        return False
    return bool(result.dtype == torch.float16 and result.device.type == "cpu")
