"""A launch to repeat with each configuration.

It is the launch of a host function of our own kernels on the family's random inputs, or a recorded
launch of a program. A recorded launch runs on tensors like the program's, with floats from a normal
distribution and the program's own integers. Before each configuration the memory is reset, and
memory that the program did not write holds NaN, so that a missing or wrong result shows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ..engine import releases
from ..engine.loader import corpus_module
from ..engine.messages import Json, Kernel, Request
from . import values

# A norm below this counts as zero and is not a divisor.
_TINY = 1e-30
# Small enough for gates and decays, which kernels add up and exponentiate.
_SPREAD = 0.1
# Every process draws the same numbers, so that its results can be compared with another's.
_SEED = 0


class TimedLaunch:
    """A launch whose memory can be reset and compared.

    `function` is the kernel below its autotuner, `args` and `kwargs` are the arguments of every
    configuration, `memory` holds all tensors that it can write. Inputs that are `made_up` may lead
    to infinities and NaN; other results are all numbers.
    """

    def __init__(
        self,
        function: Kernel,
        args: Any,
        kwargs: Any,
        memory: list[Any],
        made_up: bool = False,
    ) -> None:
        self._function = function
        self._args, self._kwargs = args, kwargs
        self._made_up = made_up
        # The names in the kernel's module.
        self.names: Json = function.fn.__globals__
        self._memory = [(tensor, tensor.clone()) for tensor in memory]
        self._right: list[Any] | None = None

    def with_config(self, settings: Json) -> Callable[[], object]:
        """Return a call that launches with a configuration's constants, options and grid."""
        kwargs = {**self._kwargs, **settings}
        return lambda: self._function.run(*self._args, **kwargs)

    def reset(self) -> None:
        """Reset the memory that a launch can write."""
        for tensor, before in self._memory:
            tensor.copy_(before)

    def error(self) -> float | None:
        """Return the largest relative difference of the results from the first configuration's.

        It is None if no result is a number. Memory that the first configuration did not change is
        not compared again. Raises ArithmeticError if only one of two results is a number, or if
        nothing was written.
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
        finite = one.isfinite()
        complete = finite.all()
        if self._made_up:
            complete = finite.equal(two.isfinite())
        if not complete:
            raise ArithmeticError("the kernel left a result unwritten, or wrote a non-number")
        if not finite.any():
            return None
        one = one.where(finite, 0)
        two = two.where(finite, 0)
        difference = (one - two).norm()
        return float(difference / two.norm().clamp_min(_TINY))


def _is_same(tensor: Any, other: Any) -> bool:
    """Return True if the bytes are equal, because NaN equals itself only so.

    Some dtypes cannot be compared otherwise.
    """
    import torch

    bytes_one = tensor.reshape(-1).view(torch.uint8)
    bytes_two = other.reshape(-1).view(torch.uint8)
    return bool(torch.equal(bytes_one, bytes_two))


class _Reached(Exception):
    """The launch was made; the rest of the host function is not needed."""


def host_launch(request: Request, corpus: str, device: str) -> TimedLaunch:
    """Return the kernel's first launch; earlier kernels run in their first configuration.

    The kernels of the gradients follow those of the outputs.
    """
    import torch

    name = request["kernel"]["name"]
    module = corpus_module(corpus, request["kernel"]["corpus"])
    for kernel in module.KERNELS:
        tuner = getattr(module, kernel)
        tuner.configs = tuner.configs[:1]
    dtype = getattr(torch, values.TORCH_NAMES[request["dtype"]])
    inputs = module.inputs(**request["shape"], dtype=dtype, device=device)
    form = module.KERNELS[name]["form"]
    host = getattr(module, form)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills the result of torch.empty
    try:
        return _first_launch(getattr(module, name), lambda: _with_gradients(host, inputs))
    finally:
        torch.use_deterministic_algorithms(before)


def _with_gradients(host: Callable[..., Any], inputs: Json) -> None:
    """Call a host function forward and, if it has gradients, backward."""
    import torch

    arguments = dict(inputs)
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            arguments[name] = value.requires_grad_()
    outputs = host(**arguments)
    if outputs[0].requires_grad:
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])


def _first_launch(tuner: Kernel, program: Callable[[], object]) -> TimedLaunch:
    """Return an autotuner's first launch in a program; the launch itself does not run."""
    launches: list[TimedLaunch] = []

    def keep_launch(*args: Any, **kwargs: Any) -> None:
        tensors = []
        for value in (*args, *kwargs.values()):
            if hasattr(value, "data_ptr"):
                # Its memory is reset in place, also if it has a gradient.
                tensors.append(value.detach())
        launches.append(TimedLaunch(tuner.fn, args, kwargs, tensors))
        raise _Reached

    tuner.run = keep_launch
    try:
        with contextlib.suppress(_Reached):
            program()
    finally:
        del tuner.run
    return launches[0]


def recorded_launch(request: Request, kernel: Kernel, device: str) -> TimedLaunch:
    """Return the launch of a request, whose arguments include heuristic values."""
    import torch

    torch.manual_seed(_SEED)
    function = releases.strip_decorators(kernel)
    names = function.fn.__globals__
    tensors = _Tensors(request["memory"], device)
    kwargs = values.constants(request["options"], names)
    arguments = request["launch"]["args"]
    kwargs |= values.arguments(arguments, names, tensors.tensor)
    kwargs["warmup"] = False
    memory = list(tensors.storages.values())
    return TimedLaunch(function, (), kwargs, memory, made_up=True)


class _Tensors:
    """Storages as flat tensors, each made for the first tensor in it."""

    def __init__(self, memory: Json, device: str) -> None:
        self._sizes = memory["storages"]
        self._layouts = memory["tensors"]
        self._device = device
        self.storages: dict[int, Any] = {}

    def tensor(self, path: str, dtype: str, align: int) -> Any:
        """Return a tensor at the program's position in its storage, with the same alignment."""
        import torch

        layout = self._layouts[path]
        kind = getattr(torch, values.TORCH_NAMES[dtype])
        number = layout["storage"]
        if number not in self.storages:
            # The whole storage, in the dtype of its first tensor.
            count = self._sizes[number] // kind.itemsize
            storage = torch.empty(count, dtype=kind, device=self._device)
            self.storages[number] = _fill(storage)
        flat = self.storages[number].view(kind)
        place = layout["shape"], layout["strides"], layout["offset"]
        if layout["values"] is not None:
            # By index, because an expanded tensor has many elements in one place.
            indices = torch.arange(flat.numel())
            positions = indices.as_strided(*place).reshape(-1)
            values_tensor = torch.tensor(layout["values"], dtype=torch.int64)
            positions = positions.to(flat.device)
            flat[positions] = values_tensor.to(flat.device, kind)
        return flat.as_strided(*place)


def _fill(flat: Any) -> Any:
    """Fill a flat tensor: integers with zeros, floats with random numbers.

    The narrowest floats cannot be drawn directly.
    """
    if not flat.dtype.is_floating_point:
        return flat.zero_()
    if flat.dtype.itemsize > 1:
        return flat.normal_(0, _SPREAD)
    return flat.copy_(flat.float().normal_(0, _SPREAD))
