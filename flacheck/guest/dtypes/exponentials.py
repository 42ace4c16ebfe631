"""Exponentials of sums over a sequence in float16, detected without data.

Operations are recognised by their results, not by name. An exponential returns 1 for 0 and turns a
sum into a product; a sum is linear and returns more for all ones than for a single one. Both are
tested on a few real numbers. If an exponential follows a sum through operations on this one tensor
alone, the whole chain runs in float16 on a tensor filled with one plain number: if the result is
infinite, no unusual data are needed to overflow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .overflow import REFUSALS, on_the_side

_STEP = "_flacheck_made"
# Typical activations behind a norm; larger values would be an assumption.
_PLAIN = (0.0, 0.0625, -0.0625, 0.25, -0.25, 1.0, -1.0)
# A sum over a sequence has at least this many terms.
_FEWEST = 16
# Limits of a chain's steps and of a tensor's elements bound the cost.
_LONGEST, _LARGEST = 12, 1 << 20

# A function with its arguments, and the tensor among them.
_Step = tuple[Any, Any, Mapping[str, Any], torch.Tensor]


class Exponentials:
    """The operations behind float16 tensors, and which operations are exponentials."""

    def __init__(self) -> None:
        self._is_exponential_by_key: dict[str, bool] = {}

    def check(
        self, tensor: torch.Tensor, function: Any, args: Any, kwargs: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Record the call that returned a float16 tensor, and return its overflow, if any."""
        tensors = [leaf for leaf in tree_leaves((args, dict(kwargs))) if _is_tensor(leaf)]
        if len(tensors) != 1 or tensors[0].dtype != torch.float16:
            return None
        step = (function, args, kwargs, tensors[0])
        setattr(tensor, _STEP, step)
        if not self._is_exponential(step):
            return None
        with on_the_side():
            return _find_overflow(step)

    def forget(self, tensor: torch.Tensor) -> None:
        """Forget the origin of a tensor that was written into, because it now has several."""
        if hasattr(tensor, _STEP):
            delattr(tensor, _STEP)

    def _is_exponential(self, step: _Step) -> bool:
        function, args, kwargs, operand = step
        others = [leaf for leaf in tree_leaves((args, dict(kwargs))) if not _is_tensor(leaf)]
        key = f"{function!r} {others!r} {operand.dim()}"
        if key not in self._is_exponential_by_key:
            with on_the_side():
                self._is_exponential_by_key[key] = _probe_exponential(step)
        return self._is_exponential_by_key[key]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _call_with(step: _Step, replacement: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor that an operation gives for another operand, None if it gives none."""
    function, args, kwargs, operand = step

    def replace(value: Any) -> Any:
        if value is operand:
            return replacement
        return value

    try:
        result = function(*tree_map(replace, list(args)), **tree_map(replace, dict(kwargs)))
    except REFUSALS:
        return None
    return result if _is_tensor(result) else None


def _probe_exponential(step: _Step) -> bool:
    form = [1] * max(step[3].dim() - 1, 0) + [4]
    replacement = torch.tensor([0.0, 1.0, 2.0, 3.0]).view(form)
    result = _call_with(step, replacement)
    # An exponential accepts this shape and dtype.
    if result is None or result.shape != replacement.shape or not result.is_floating_point():
        return False
    zero, one, two, three = result.float().flatten().tolist()
    is_product = abs(one * two - three) <= 1e-4 * abs(three)
    return bool(zero == 1.0 and abs(one - 1.0) > 1e-3 and is_product)


def _find_overflow(last: _Step) -> dict[str, Any] | None:
    way = list(_way(last))
    terms = max((_terms(step) for step in way[1:]), default=0)
    start = way[-1][3]
    if terms < _FEWEST or start.numel() > _LARGEST:
        return None
    for number in _PLAIN:
        value: torch.Tensor | None = torch.full(tuple(start.shape), number, dtype=torch.float16)
        for step in reversed(way):
            if value is not None:
                value = _call_with(step, value)
        if value is None:
            return None
        if torch.isinf(value).any():
            return {
                "constant": number,
                "terms": terms,
                "shown": f"infinite when every element that goes in is {number:g}",
            }
    return None


def _way(last: _Step) -> Iterator[_Step]:
    """Yield the steps that led to an operation's result, the last step first."""
    step: _Step | None = last
    for _ in range(_LONGEST):
        if step is None:
            return
        yield step
        step = getattr(step[3], _STEP, None)


def _terms(step: _Step) -> int:
    """Return how many elements a linear operation adds up; 0 for any other operation."""
    operand = step[3]
    if operand.numel() > _LARGEST or not operand.numel():
        return 0
    ones = torch.ones(tuple(operand.shape))
    single = torch.zeros(tuple(operand.shape))
    single.view(-1)[0] = 1.0
    of_ones, of_twos, of_one = (_call_with(step, each) for each in (ones, 2 * ones, single))
    # A sum accepts this shape and dtype and returns a tensor.
    if of_ones is None or of_twos is None or of_one is None:
        return 0
    if not of_ones.is_floating_point() or not torch.equal(of_ones * 2, of_twos):
        return 0
    largest, least = of_ones.abs().max().item(), of_one.abs().max().item()
    if not least:
        return 0
    return int(largest / least)
