"""A launch to make again with each configuration, and what each of them writes.

Before each configuration memory is what it was, so that a result that is left out or wrong shows.
"""

from __future__ import annotations


class TimedLaunch:
    """`function` is the kernel below its autotuner, `args` and `kwargs` what it is launched with
    whatever the configuration, `memory` tensors that together hold all that it can write. Inputs
    that are `made_up` may lead to infinities and NaN; other results are all numbers.
    """

    def __init__(self, function, args, kwargs: dict, memory: list, made_up: bool = False) -> None:
        self._function, self._args, self._kwargs, self._made_up = function, args, kwargs, made_up
        self._memory = [(tensor, tensor.clone()) for tensor in memory]
        self._right: list | None = None

    @property
    def names(self) -> dict:
        """What stands in the kernel's module."""
        return self._function.fn.__globals__

    def with_config(self, settings: dict):
        """A call that launches with a configuration's constants and options, and a grid where it
        has one of its own.
        """
        kwargs = {**self._kwargs, **settings}
        return lambda: self._function.run(*self._args, **kwargs)

    def reset(self) -> None:
        """What a launch can write is as it was."""
        for tensor, before in self._memory:
            tensor.copy_(before)

    def error(self) -> float | None:
        """The largest relative difference of what was written since `reset` from what the first
        configuration wrote, None where that is no number anywhere; what the first did not change is
        not looked at again.

        Raises ArithmeticError where one wrote a number and the other none, or nothing was written.
        """
        if self._right is None:
            self._memory = [
                (tensor, before) for tensor, before in self._memory if not _same(tensor, before)
            ]
            self._right = [tensor.double() for tensor, _ in self._memory]
        if not self._memory:
            raise ArithmeticError("the kernel wrote nothing")
        errors = [
            self._error(tensor.double(), right)
            for (tensor, _), right in zip(self._memory, self._right)
        ]
        return max((error for error in errors if error is not None), default=None)

    def _error(self, one, two) -> float | None:
        known = one.isfinite()
        if not (known.equal(two.isfinite()) if self._made_up else known.all()):
            raise ArithmeticError("the kernel left a result unwritten, or wrote what is no number")
        if not known.any():
            return None
        one, two = one.where(known, 0), two.where(known, 0)
        return float((one - two).norm() / two.norm().clamp_min(1e-30))


def _same(tensor, other) -> bool:
    """Bit by bit: NaN is itself, and not every dtype can be compared."""
    import torch

    return torch.equal(tensor.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))
