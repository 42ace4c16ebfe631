"""A launch to make again with each configuration, and the one that a host function of our own
kernels makes, on the family's own random inputs.

Before each configuration memory is what it was, and memory that nobody wrote holds NaN, so that a
result that is left out or wrong shows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..engine.loader import corpus_module
from ..engine.messages import BenchRequest, Kernel

# A norm below this is taken for zero, by which nothing is divided.
_TINY = 1e-30


class TimedLaunch:
    """`function` is the kernel below its autotuner, `args` and `kwargs` what it is launched with
    whatever the configuration, `memory` tensors that together hold all that it can write. Inputs
    that are `made_up` may lead to infinities and NaN; other results are all numbers.
    """

    def __init__(
        self,
        function: Kernel,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        memory: list[Any],
        made_up: bool = False,
    ) -> None:
        self._function, self._args, self._kwargs, self._made_up = function, args, kwargs, made_up
        self._memory = [(tensor, tensor.clone()) for tensor in memory]
        self._right: list[Any] | None = None

    @property
    def names(self) -> dict[str, Any]:
        """What stands in the kernel's module."""
        module: dict[str, Any] = self._function.fn.__globals__
        return module

    def with_config(self, settings: dict[str, Any]) -> Callable[[], object]:
        """A call that launches with a configuration's constants, options and own grid."""
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
            self._memory = [pair for pair in self._memory if not _is_same(*pair)]
            self._right = [tensor.double() for tensor, _ in self._memory]
        if not self._memory:
            raise ArithmeticError("the kernel wrote nothing")
        errors = []
        for (tensor, _), right in zip(self._memory, self._right):
            error = self._error(tensor.double(), right)
            if error is not None:
                errors.append(error)
        return max(errors, default=None)

    def _error(self, one: Any, two: Any) -> float | None:
        known = one.isfinite()
        complete = known.all()
        if self._made_up:
            complete = known.equal(two.isfinite())
        if not complete:
            raise ArithmeticError("the kernel left a result unwritten, or wrote what is no number")
        if not known.any():
            return None
        one, two = one.where(known, 0), two.where(known, 0)
        return float((one - two).norm() / two.norm().clamp_min(_TINY))


def _is_same(tensor: Any, other: Any) -> bool:
    """Bit by bit: NaN is itself, and not every dtype can be compared."""
    import torch

    left, right = tensor.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8)
    return bool(torch.equal(left, right))


class _Reached(Exception):
    """The launch was made: what the host function does then is of no interest."""


def host_launch(request: BenchRequest, corpus: str, device: str) -> TimedLaunch:
    """The kernel's first launch; kernels before it run in the first configuration of each."""
    import torch

    name = request["kernel"]["name"]
    module = corpus_module(corpus, request["kernel"]["corpus"])
    for kernel in module.KERNELS:
        tuner = getattr(module, kernel)
        tuner.configs = tuner.configs[:1]
    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    inputs = module.inputs(**request["shape"], dtype=dtypes[request["dtype"]], device=device)
    host = getattr(module, module.KERNELS[name]["form"])
    with _unwritten_is_nan():
        return _first_launch(getattr(module, name), lambda: host(**inputs))


def _first_launch(tuner: Kernel, program: Callable[[], object]) -> TimedLaunch:
    """The launch of an autotuner that a program makes first: it is kept, and goes no further."""
    launches: list[TimedLaunch] = []

    def kept(*args: Any, **kwargs: Any) -> None:
        tensors = [value for value in [*args, *kwargs.values()] if hasattr(value, "data_ptr")]
        launches.append(TimedLaunch(tuner.fn, args, kwargs, tensors))
        raise _Reached

    tuner.run = kept
    try:
        with contextlib.suppress(_Reached):
            program()
    finally:
        del tuner.run
    return launches[0]


@contextlib.contextmanager
def _unwritten_is_nan() -> Iterator[None]:
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills what torch.empty returns
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
