"""A launch to make again with each configuration: the one that a host function of our own kernels
makes, on the family's own random inputs, or one that a program made, as it was recorded: on tensors
like its own, with floats drawn from a normal distribution and the program's own integers. Before
each configuration memory is what it was, and memory that nobody wrote holds NaN, so that a result
that is left out or wrong shows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ..engine import releases
from ..engine.loader import corpus_module
from ..engine.messages import Kernel, Request
from . import values

# A norm below this is taken for zero, by which nothing is divided.
_TINY = 1e-30
# Small enough for gates and decays, which kernels add up and exponentiate.
_SPREAD = 0.1
# Every process draws the same numbers, so that its results can be compared with another's.
_SEED = 0


class TimedLaunch:
    """`function` is the kernel below its autotuner, `args` and `kwargs` what it is launched with
    whatever the configuration, `memory` tensors that together hold all that it can write. Inputs
    that are `made_up` may lead to infinities and NaN; other results are all numbers."""

    def __init__(
        self, function: Kernel, args: Any, kwargs: Any, memory: list[Any], made_up: bool = False
    ) -> None:
        self._function, self._args, self._kwargs, self._made_up = function, args, kwargs, made_up
        # What stands in the kernel's module.
        self.names: dict[str, Any] = function.fn.__globals__
        self._memory = [(tensor, tensor.clone()) for tensor in memory]
        self._right: list[Any] | None = None

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
        not looked at again. Raises ArithmeticError where one wrote a number and the other none, or
        nothing was written."""
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


def host_launch(request: Request, corpus: str, device: str) -> TimedLaunch:
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
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills what torch.empty returns
    try:
        return _first_launch(getattr(module, name), lambda: host(**inputs))
    finally:
        torch.use_deterministic_algorithms(before)


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


def recorded_launch(request: Request, kernel: Kernel, device: str) -> TimedLaunch:
    """The request's `launch` has what heuristics gave among its arguments."""
    import torch

    torch.manual_seed(_SEED)
    function = releases.strip_decorators(kernel)
    names = function.fn.__globals__
    made = _Tensors(request["memory"], device)
    kwargs = values.constants(request["options"], names)
    kwargs |= values.arguments(request["launch"]["args"], names, made.tensor)
    kwargs["warmup"] = False
    return TimedLaunch(function, (), kwargs, list(made.storages.values()), made_up=True)


class _Tensors:
    """Storages as flat tensors, each made when the first tensor that lies in it is asked for."""

    def __init__(self, memory: dict[str, Any], device: str) -> None:
        self._sizes, self._placed, self._device = memory["storages"], memory["tensors"], device
        self.storages: dict[int, Any] = {}

    def tensor(self, path: str, dtype: str, align: int) -> Any:
        """A tensor where the program's lay in its storage, and so aligned as that one was."""
        import torch

        placed, kind = self._placed[path], getattr(torch, values.TORCH_NAMES[dtype])
        number = placed["storage"]
        if number not in self.storages:
            # All of it, of the kind of the first tensor in it.
            count = self._sizes[number] // kind.itemsize
            self.storages[number] = _filled(torch.empty(count, dtype=kind, device=self._device))
        flat = self.storages[number].view(kind)
        place = placed["shape"], placed["strides"], placed["offset"]
        if placed["values"] is not None:
            # By their indices: an expanded tensor has many elements in one place.
            where = torch.arange(flat.numel()).as_strided(*place).reshape(-1)
            known = torch.tensor(placed["values"], dtype=torch.int64)
            flat[where.to(flat.device)] = known.to(flat.device, kind)
        return flat.as_strided(*place)


def _filled(flat: Any) -> Any:
    """Integers that nobody recorded are zero; the narrowest floats cannot be drawn themselves."""
    if not flat.dtype.is_floating_point:
        return flat.zero_()
    if flat.dtype.itemsize > 1:
        return flat.normal_(0, _SPREAD)
    return flat.copy_(flat.float().normal_(0, _SPREAD))
