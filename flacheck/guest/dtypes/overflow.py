"""Numbers that float16 cannot hold, shown without data: an operation with such a constant is run on
zeros, and what comes out is infinite, or torch refuses the constant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

_LARGEST = 65504.0
_REFUSED = "without overflow"


def overflow(function: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The constant that a call with a float16 result overflows by, and what shows it; None when
    every constant fits, or when nothing shows that one does not."""
    large = [value for value in _numbers(args, kwargs) if _LARGEST < abs(value) < math.inf]
    if not large:
        return None
    shown = _shown(function, args, kwargs)
    if shown is None:
        return None
    return {"constant": large[0], "shown": shown}


def _numbers(args: Any, kwargs: Mapping[str, Any]) -> Iterator[float]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, float) or type(value) is int:
            yield float(value)


def _shown(function: Any, args: Any, kwargs: Mapping[str, Any]) -> str | None:
    """What becomes of zeros: the same call on real tensors with one element for each dimension."""

    def small(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype == torch.bool:
            # A mask that takes everything: what it writes is to be seen.
            return torch.ones([1] * value.dim(), dtype=torch.bool)
        return torch.zeros([1] * value.dim(), dtype=value.dtype)

    try:
        with _disable_current_modes(), torch.autocast("cuda", enabled=False), torch.no_grad():
            result = function(*tree_map(small, list(args)), **tree_map(small, dict(kwargs)))
            if _is_real_half(result) and torch.isinf(result).all():
                return "infinite"
    except Exception as error:
        # Any operation of the program is called here, with tensors that it was not written for.
        if _REFUSED in str(error):
            return str(error).splitlines()[0]
    return None


def _is_real_half(result: Any) -> bool:
    if not isinstance(result, torch.Tensor):
        return False
    return bool(result.dtype == torch.float16 and result.device.type == "cpu")
