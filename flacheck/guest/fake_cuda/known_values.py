"""Real values for the few tensors that a host program reads: small integers and booleans.

All other tensors on the fake device have a shape and a dtype only. A value is kept if all inputs of
its computation are known. A known value is dropped when an unknown value is written into the
tensor. An unknown value that a program reads is guessed such that the program goes on: a comparison
holds, a mask selects everything, a difference is zero, nothing is infinite or NaN.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from .registrations import BODIES, is_on_card
from .shortcut import Shortcut

# The maximum number of elements of a tensor with a known value. Programs read offsets and indices;
# floats are many, and seldom read.
INTEGERS_UP_TO = 1 << 18
FLOATS_UP_TO = 1 << 12
# Attributes of a fake tensor and of the real tensor behind it.
_VALUE = "_flacheck_value"
_BLANK = "_flacheck_blank"
# CUDA's allocator aligns every block to 512 bytes.
_ALIGNED_BITS = 9
_CPU, _META = torch.device("cpu"), torch.device("meta")
_aten = torch.ops.aten
_READS = (_aten._local_scalar_dense.default, _aten.item.default)
_DEVICE = torch.ops.prim.device.default
# Operations that draw random floats: in another order of calls they would give other values than on
# the card.
_RANDOM_NAMES = ("rand", "normal", "bernoulli", "multinomial", "uniform", "exponential", "dropout")

_DOUBT = "_flacheck_doubted"
# Operations that test for errors, that may test for errors, and that pass on the result of a test.
_ERROR_TESTS = {
    _aten.isnan.default,
    _aten.isinf.default,
    _aten.isposinf.default,
    _aten.isneginf.default,
}
_COMPARISONS = {_aten.eq.Scalar, _aten.eq.Tensor, _aten.ne.Tensor}
_PASSING_ON = {
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
_OF_INTEREST = _ERROR_TESTS | _COMPARISONS | _PASSING_ON

# Called with the kind of an unknown value that a program reads.
GuessListener = Callable[[str], None]


def value_of(tensor: Any) -> Any:
    """Return the real CPU tensor behind a fake one, or None if its value is unknown."""
    if isinstance(tensor, FakeTensor):
        return getattr(tensor, _VALUE, None)
    return tensor


def keep_value(tensor: Any, value: Any) -> None:
    """Set the real CPU tensor behind a fake one, None if its value is unknown."""
    setattr(tensor, _VALUE, value)


def keep_zeros(tensor: Any) -> None:
    """Set the value of fresh memory of few elements, whose content is undefined, to zeros."""
    if value_of(tensor) is None and tensor.numel() <= _limit(tensor):
        size, strides = tuple(tensor.shape), tensor.stride()
        with _disable_current_modes():
            keep_value(tensor, torch.empty_strided(size, strides, dtype=tensor.dtype).zero_())


def read(tensor: Any) -> list[int] | None:
    """Return the values of an integer tensor in the order of its indices, None if unknown.

    On a real card a tensor cannot be read while its stream is captured.
    """
    known_value = value_of(tensor)
    if known_value is None:
        return None
    if known_value.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    with _disable_current_modes():
        flat = known_value.reshape(-1)
        return [int(value) for value in flat.tolist()]


def forget_written(arguments: Iterable[object]) -> None:
    """Drop the values that a launched kernel may have overwritten.

    Such tensors are floats and fresh memory among the arguments. Integers that the program stored,
    such as offsets, are inputs of a kernel.
    """
    for tensor in arguments:
        value = getattr(tensor, _VALUE, None)
        if value is not None and (value.is_floating_point() or _is_blank(value)):
            keep_value(tensor, None)


def _is_blank(value: Any) -> bool:
    """Return True for fresh memory into which the program has stored nothing."""
    if not getattr(value, _BLANK, False):
        return False
    with torch._C._DisableTorchDispatch():
        return not value.any()


class NoDeviceMode(FakeTensorMode):
    """A fake tensor mode that never uses the device, although torch.cuda reports one."""

    avoid_device_init = True
    _thread = threading.local()

    @property
    def in_kernel_invocation(self) -> bool:
        """The flag of this thread; torch keeps it in the mode, which all threads share."""
        return getattr(self._thread, "in_kernel", False)

    @in_kernel_invocation.setter
    def in_kernel_invocation(self, inside: bool) -> None:
        self._thread.in_kernel = inside


class KnownValues(TorchDispatchMode):
    """A mode above the fake mode that runs operations on the known values too.

    `operations` counts all operations.
    """

    operations = 0
    # Called after the maximum number of operations.
    _most = math.inf
    _over: Callable[[], object] = staticmethod(lambda: None)
    # Operators that take functions or operators also come here.
    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: torch.compile traces without this mode, and its result runs with it."""
        return True

    def __init__(self, fake_mode: NoDeviceMode, on_guess: GuessListener) -> None:
        super().__init__()
        self._fake_mode = fake_mode
        self._shortcut = Shortcut(fake_mode)
        self._on_guess = on_guess

    @classmethod
    def limit(cls, more: float, over: Callable[[], object]) -> None:
        """Call `over`, which raises, at each operation after `more` further ones.

        Unlike a time limit, this ends a loop at the same place on every machine. An infinite number
        sets no limit.
        """
        cls._most = cls.operations + more
        cls._over = staticmethod(over)

    def __torch_dispatch__(
        self,
        operator: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        # This is the most frequent operation, above all in the fake mode, so it skips that mode.
        if operator is _DEVICE:
            if args[0].fake_mode.in_kernel_invocation:
                return _META
            return args[0].fake_device
        KnownValues.operations += 1
        if KnownValues.operations > KnownValues._most:
            KnownValues._over()
        if not isinstance(operator, torch._ops.OpOverload):
            return self._run_higher_order(operator, args, kwargs)
        if operator in _READS:
            return self._read(args[0])
        body = BODIES.of(operator)
        if body is not None and is_on_card(args, kwargs):
            with self:
                return BODIES.run(operator, body, args, kwargs)
        if operator is _aten._to_copy.default and kwargs.get("device") == _META:
            # The stand-in for CUDA's device guard is meta's, which reports meta as the current
            # device.
            kwargs = {**kwargs, "device": torch.device("cuda", 0)}
        known_value = _compute(operator, args, kwargs)
        try:
            result = self._shortcut(operator, args, kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException):
            if known_value is None:
                self._on_guess(_name(operator))
                known_value = _run(operator, *_imagine_arguments(operator, args, kwargs))
            result = self._fake_result(known_value, args, kwargs)
        _keep(operator, args, result, known_value)
        return result

    def _run_higher_order(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that takes functions or operators."""
        if isinstance(operator, torch._ops.HigherOrderOperator):
            # The rule is stored under the base class of our mode.
            rule = operator.python_key_table.get(FakeTensorMode)
            if rule is not None:
                with _disable_current_modes():
                    return rule(self._fake_mode, *args, **kwargs)
        return operator(*args, **kwargs)

    def _read(self, tensor: Any) -> Any:
        """Return the result of `.item()`; for an unknown tensor, a guess."""
        value = value_of(tensor)
        if value is not None:
            with _disable_current_modes():
                return value.item()
        self._on_guess(_kind(tensor))
        return _guess(tensor)

    def _fake_result(self, known_value: Any, args: Any, kwargs: Any) -> Any:
        """Return a fake result in the form of a known value, on the first argument's device."""
        tensors = _tensors(args, kwargs)
        device = None
        if tensors:
            device = tensors[0].device

        def fake(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            with self._fake_mode:
                return torch.empty(leaf.shape, dtype=leaf.dtype, device=device)

        return tree_map(fake, known_value)


def _compute(operator: Any, args: Any, kwargs: Any) -> Any:
    """Return an operation's result on the known values, None if it is unknown or costly."""
    # A quick check of the arguments, because most operations have an unknown one.
    for argument in args:
        if isinstance(argument, FakeTensor) and value_of(argument) is None:
            return None
    tensors = _tensors(args, kwargs)
    if not _is_computable(operator, args, kwargs, tensors):
        return None
    try:
        return _run(operator, *_plain_arguments(args, kwargs))
    except IndexError:
        # The fake operation would not detect this error and would go on with an unknown value.
        if all(tensor.device.type == "cpu" for tensor in tensors):
            raise
        return None
    except (RuntimeError, ValueError, TypeError):
        # The fake operation raises the error in the program's own terms.
        return None


def _tensors(args: Any, kwargs: Any) -> list[Any]:
    tensors: list[Any] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple, dict)):
            leaves = tree_leaves(value)
            tensors += [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return tensors


def _is_computable(operator: Any, args: Any, kwargs: Any, tensors: list[Any]) -> bool:
    if not tensors:
        return _is_small_factory(operator, args, kwargs)
    floats = False
    for value in map(value_of, tensors):
        if value is None or value.numel() > _limit(value):
            return False
        if value.device.type != "cpu":
            return False
        floats = floats or value.is_floating_point()
    return not (floats and _name(operator).startswith(_RANDOM_NAMES))


def _limit(tensor: Any) -> int:
    if tensor.is_floating_point() or tensor.is_complex():
        return FLOATS_UP_TO
    return INTEGERS_UP_TO


def _is_small_factory(operator: Any, args: Any, kwargs: Any) -> bool:
    """Return True for a small new tensor of integers, or of floats that are not random."""
    name, dtype = _name(operator), kwargs.get("dtype")
    is_random = name.startswith(("rand", "normal"))
    if is_random and not name.startswith(("randint", "randperm")):
        return False
    floats = dtype is None or dtype.is_floating_point
    if floats and dtype is not None and name.startswith("empty"):
        return False
    size = 1
    if name in ("arange", "linspace", "randperm"):
        size = 0
        for value in args:
            if isinstance(value, (int, float)):
                size = max(size, abs(int(value)))
    elif args and isinstance(args[0], (list, tuple)):
        for extent in args[0]:
            size *= int(extent)
    if floats:
        return size <= FLOATS_UP_TO
    return size <= INTEGERS_UP_TO


def _plain_arguments(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the CPU counterparts of an operation's arguments."""
    plain = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple, dict)):
            plain.append(tree_map(_plain, value))
        else:
            plain.append(_plain(value))
    return plain[: len(args)], dict(zip(kwargs, plain[len(args) :]))


def _plain(leaf: Any) -> Any:
    """Return the CPU counterpart of an argument."""
    if isinstance(leaf, torch.device):
        return _CPU
    if isinstance(leaf, torch.Tensor):
        return value_of(leaf)
    return leaf


def _imagine_arguments(operator: Any, args: Any, kwargs: Any) -> Any:
    """Return the arguments with a stand-in for each unknown tensor: true, or ones.

    If all elements are equal and the result is not a tensor, the stand-in has a single element.
    """
    tensors = _tensors(args, kwargs)
    returns_tensor = False
    for value in operator._schema.returns:
        returns_tensor = returns_tensor or "Tensor" in str(value.type)
    unknown = all(value_of(tensor) is None for tensor in tensors)
    shapes = {tensor.shape for tensor in tensors}
    is_one_enough = unknown and not returns_tensor and len(shapes) == 1

    def imagine(leaf: Any) -> Any:
        plain = _plain(leaf)
        if plain is not None or not isinstance(leaf, torch.Tensor):
            return plain
        shape = leaf.shape
        if is_one_enough:
            shape = tuple(min(extent, 1) for extent in leaf.shape)
        value = int(not _is_error_mask(leaf))
        with _disable_current_modes():
            return torch.full(shape, value, dtype=leaf.dtype)

    return tree_map(imagine, (args, kwargs))


def _name(operator: Any) -> str:
    """Return an operator's name without its namespace and overload."""
    name: str = operator._schema.name
    return name.rpartition(":")[2]


def _kind(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _run(operator: Any, args: Any, kwargs: Any) -> Any:
    kwargs.pop("pin_memory", None)
    # Modes are far slower to disable than the dispatch to them.
    with torch._C._DisableTorchDispatch():
        result = operator(*args, **kwargs)
        # The content of fresh memory is undefined.
        if operator._schema.name.startswith(("aten::empty", "aten::new_empty")):
            result.zero_()
            setattr(result, _BLANK, True)
    return result


def _keep(operator: Any, args: Any, result: Any, known_value: Any) -> None:
    """Note the values behind a result, and drop those that an operation overwrote."""
    if known_value is not None:
        for fake, value in zip(tree_leaves(result), tree_leaves(known_value)):
            both = isinstance(fake, FakeTensor) and isinstance(value, torch.Tensor)
            if both and fake.shape == value.shape:
                keep_value(fake, value)
        return
    _mark_error_test(operator, args, result)
    if not operator._schema.is_mutable:
        return
    for argument, value in zip(operator._schema.arguments, args):
        alias = argument.alias_info
        if alias is not None and alias.is_write:
            for tensor in tree_leaves(value):
                if isinstance(tensor, FakeTensor):
                    keep_value(tensor, None)


def _guess(tensor: torch.Tensor) -> bool | int | float:
    """Return a guess for the result of `.item()`."""
    if tensor.is_floating_point():
        return 0.0
    if tensor.dtype == torch.bool:
        return not _is_error_mask(tensor)
    return int(not _is_error_mask(tensor))


def _is_error_mask(tensor: object) -> bool:
    """Return True if the tensor marks errors in its elements."""
    return getattr(tensor, _DOUBT, False)


def _mark_error_test(operator: Any, args: tuple[Any, ...], result: object) -> None:
    """Mark the result of an operation that tests for errors, or passes such a test on."""
    if operator not in _OF_INTEREST or not isinstance(result, torch.Tensor):
        return
    is_test = True
    if operator is _aten.ne.Tensor:
        # Only a NaN differs from itself.
        is_test = args[0] is args[1]
    elif operator in _COMPARISONS:
        other = args[1]
        is_test = isinstance(other, float) and math.isinf(other)
    elif operator in _PASSING_ON:
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        is_test = all(map(_is_error_mask, tensors))
    if is_test:
        setattr(result, _DOUBT, True)


def _to_list(self: Any) -> Any:
    value = value_of(self)
    if value is not None:
        with _disable_current_modes():
            return value.tolist()
    if self.dim() == 0:
        return self.item()
    shape = tuple(self.shape)
    if not self.numel():
        return _nest(shape, None)
    # All elements of an unknown tensor are the same guess.
    first = self[(0,) * self.dim()]
    return _nest(shape, first.item())


def _nest(shape: tuple[int, ...], entry: Any) -> Any:
    if not shape:
        return entry
    items = []
    for _ in range(shape[0]):
        items.append(_nest(shape[1:], entry))
    return items


def _address(self: Any) -> int:
    """Return a unique address for each storage, aligned as by CUDA's allocator."""
    start: int = self.untyped_storage()._cdata << _ALIGNED_BITS
    offset: int = self.storage_offset() * self.element_size()
    return start + offset


def install_readers(on_guess: GuessListener) -> None:
    """Replace the readers of fake tensors that bypass the dispatcher: values and addresses."""

    def to_numpy(self: Any, *_: object, **__: object) -> Any:
        value = value_of(self)
        if value is None:
            on_guess(_kind(self))
        with _disable_current_modes():
            if value is None:
                value = torch.zeros(self.shape, dtype=self.dtype)
            return value.numpy()

    FakeTensor.data_ptr = _address
    FakeTensor.tolist = _to_list
    FakeTensor.numpy = to_numpy
