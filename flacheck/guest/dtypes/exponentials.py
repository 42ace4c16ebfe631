"""Exponentials of sums over a sequence that are kept in float16, shown without data.

No operation is known by name. An exponential is what gives 1 for 0 and turns a sum into a product;
a sum is linear and gives more for ones everywhere than for a single one. Both are seen by running
the operation on a few real numbers. Where the one follows the other through operations on this one
tensor alone, the whole way is run in float16, from a tensor filled with one plain number: when the
outcome is infinite for such a number, no unusual data are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

_MADE = "_flacheck_made"
# What activations are like behind a norm: nothing larger has to be assumed.
_PLAIN = (0.0, 0.0625, -0.0625, 0.25, -0.25, 1.0, -1.0)
# A sum of fewer terms is none over a sequence.
_FEWEST = 16
# Steps on the way; elements that are computed with.
_LONGEST, _LARGEST = 12, 1 << 20

# A function with its arguments, and the tensor among them.
_Step = tuple[Any, Any, Mapping[str, Any], torch.Tensor]


class Exponentials:
    """Keeps how float16 tensors were made, and what it found out of operations."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def made(
        self, tensor: torch.Tensor, function: Any, args: Any, kwargs: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """A float16 tensor came out of a call; how it overflows, when it does."""
        tensors = [leaf for leaf in tree_leaves((args, dict(kwargs))) if _is_tensor(leaf)]
        if len(tensors) != 1 or tensors[0].dtype != torch.float16:
            return None
        step = (function, args, kwargs, tensors[0])
        setattr(tensor, _MADE, step)
        if not self._is_exponential(step):
            return None
        with _on_the_side():
            return _shown(step)

    def forget(self, tensor: torch.Tensor) -> None:
        """It was written into: what is in it came another way, too."""
        if hasattr(tensor, _MADE):
            delattr(tensor, _MADE)

    def _is_exponential(self, step: _Step) -> bool:
        function, args, kwargs, operand = step
        others = [leaf for leaf in tree_leaves((args, dict(kwargs))) if not _is_tensor(leaf)]
        key = f"{function!r} {others!r} {operand.dim()}"
        if key not in self._known:
            with _on_the_side():
                self._known[key] = _probed(step)
        return self._known[key]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


class _on_the_side:
    """Real tensors, which nobody follows."""

    def __enter__(self) -> None:
        self._entered = [
            _disable_current_modes(),
            torch.autocast("cuda", enabled=False),
            torch.no_grad(),
        ]
        for context in self._entered:
            context.__enter__()

    def __exit__(self, *raised: Any) -> None:
        for context in reversed(self._entered):
            context.__exit__(*raised)


def _called(step: _Step, given: torch.Tensor) -> Any:
    function, args, kwargs, operand = step

    def replaced(value: Any) -> Any:
        if value is operand:
            return given
        return value

    return function(*tree_map(replaced, list(args)), **tree_map(replaced, dict(kwargs)))


def _probed(step: _Step) -> bool:
    form = [1] * max(step[3].dim() - 1, 0) + [4]
    given = torch.tensor([0.0, 1.0, 2.0, 3.0]).view(form)
    try:
        result = _called(step, given)
    except Exception:
        # It takes no such shape or dtype: no exponential does that.
        return False
    if not _is_tensor(result) or result.shape != given.shape or not result.is_floating_point():
        return False
    zero, one, two, three = result.float().flatten().tolist()
    is_product = abs(one * two - three) <= 1e-4 * abs(three)
    return bool(zero == 1.0 and abs(one - 1.0) > 1e-3 and is_product)


def _shown(last: _Step) -> dict[str, Any] | None:
    way = list(_way(last))
    terms = max((_terms(step) for step in way[1:]), default=0)
    start = way[-1][3]
    if terms < _FEWEST or start.numel() > _LARGEST:
        return None
    for number in _PLAIN:
        try:
            value: Any = torch.full(tuple(start.shape), number, dtype=torch.float16)
            for step in reversed(way):
                value = _called(step, value)
        except Exception:
            # What a processor cannot do in float16 shows nothing.
            return None
        if torch.isinf(value).any():
            return {
                "constant": number,
                "terms": terms,
                "shown": f"infinite when every element that goes in is {number:g}",
            }
    return None


def _way(last: _Step) -> Iterator[_Step]:
    """The steps that led to an operation's result, the last first."""
    step: _Step | None = last
    for _ in range(_LONGEST):
        if step is None:
            return
        yield step
        step = getattr(step[3], _MADE, None)


def _terms(step: _Step) -> int:
    """How many elements a linear operation adds up; 0 for any other."""
    operand = step[3]
    if operand.numel() > _LARGEST or not operand.numel():
        return 0
    ones = torch.ones(tuple(operand.shape))
    single = torch.zeros(tuple(operand.shape))
    single.view(-1)[0] = 1.0
    try:
        of_ones, of_twos, of_one = (_called(step, each) for each in (ones, 2 * ones, single))
        if not torch.equal(of_ones * 2, of_twos):
            return 0
        largest, least = of_ones.abs().max().item(), of_one.abs().max().item()
    except Exception:
        # It takes no such shape or dtype, or makes no tensor: nothing was added up.
        return 0
    if not least:
        return 0
    return int(largest / least)
