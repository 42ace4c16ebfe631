"""Real values for the few tensors whose values a host program reads: small ones of integers and
booleans. Everything else on the fake device has a shape and a dtype only. A value is kept while all
that it is computed from is known; it goes when something unknown is written into it. Of values that
nobody computed a program is told that all is as it should be, so that it goes on: a comparison
holds, a mask takes everything, a difference is zero, nothing is infinite or NaN."""

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

# Elements of the largest tensors whose values are kept. What programs read are offsets and indices;
# floats are many, and seldom read.
INTEGERS_UP_TO = 1 << 18
FLOATS_UP_TO = 1 << 12
# Attributes of a fake tensor and of the real one behind it.
_KEPT = "_flacheck_value"
_BLANK = "_flacheck_blank"
# CUDA's allocator aligns every block to 512 bytes.
_ALIGNED_BITS = 9
_CPU, _META = torch.device("cpu"), torch.device("meta")
_aten = torch.ops.aten
_READS = (_aten._local_scalar_dense.default, _aten.item.default)
_DEVICE = torch.ops.prim.device.default
# What draws floats at random: another order of calls would give others than the card does.
_UNORDERED = ("rand", "normal", "bernoulli", "multinomial", "uniform", "exponential", "dropout")

_DOUBTED = "_flacheck_doubted"
# What asks whether something is wrong; what may ask; and what hands such an answer on.
_RARE = {_aten.isnan.default, _aten.isinf.default, _aten.isposinf.default, _aten.isneginf.default}
_COMPARING = {_aten.eq.Scalar, _aten.eq.Tensor, _aten.ne.Tensor}
_FOLLOWING = {
    *(_aten.any.default, _aten.any.dim, _aten.any.dims, _aten.all.default),
    *(_aten.logical_or.default, _aten.logical_and.default),
    *(_aten.bitwise_or.Tensor, _aten.bitwise_and.Tensor),
    *(_aten.sum.default, _aten.sum.dim_IntList),
    *(_aten.view.default, _aten.detach.default, _aten._to_copy.default),
}
_OF_INTEREST = _RARE | _COMPARING | _FOLLOWING

# Told what kind of value a program read that nobody knows.
GuessListener = Callable[[str], None]


def value_of(tensor: Any) -> Any:
    """The real CPU tensor behind a fake one, or None when nobody knows."""
    if isinstance(tensor, FakeTensor):
        return getattr(tensor, _KEPT, None)
    return tensor


def keep_value(tensor: Any, value: Any) -> None:
    """`value` is the real CPU tensor behind a fake one, None when nobody knows."""
    setattr(tensor, _KEPT, value)


def read(tensor: Any) -> list[int] | None:
    """The values of an integer tensor in the order of its indices, as integers; None when nobody
    knows them. On a real card a stream that is being captured cannot be read from."""
    known = value_of(tensor)
    if known is None or (known.is_cuda and torch.cuda.is_current_stream_capturing()):
        return None
    with _disable_current_modes():
        return [int(value) for value in known.reshape(-1).tolist()]


def forget_written(arguments: Iterable[object]) -> None:
    """A kernel was launched with these and may have written to them: floats, and what was fresh
    memory till now. Integers that the program put there, as offsets, are what a kernel reads."""
    for tensor in arguments:
        value = getattr(tensor, _KEPT, None)
        if value is not None and (value.is_floating_point() or _is_blank(value)):
            keep_value(tensor, None)


def _is_blank(value: Any) -> bool:
    """Whether it is fresh memory into which the program has put nothing yet."""
    with _disable_current_modes():
        return getattr(value, _BLANK, False) and not value.any()


class NoDeviceMode(FakeTensorMode):
    """Fake tensors that never ask the device, although torch.cuda says that there is one."""

    avoid_device_init = True
    _thread = threading.local()

    @property
    def in_kernel_invocation(self) -> bool:
        """By thread, as what it must agree with; torch keeps it in the mode, which all share."""
        return getattr(self._thread, "in_kernel", False)

    @in_kernel_invocation.setter
    def in_kernel_invocation(self, inside: bool) -> None:
        self._thread.in_kernel = inside


class KnownValues(TorchDispatchMode):
    """Entered above the fake mode: runs an operation on the known values beside the fake one.
    `operations` counts them all."""

    operations = 0
    # What is called once that many were done.
    _most = math.inf
    _over: Callable[[], object] = staticmethod(lambda: None)
    # Operators that take functions or operators come here, too.
    supports_higher_order_operators = True

    def __init__(self, fake_mode: NoDeviceMode, guessed: GuessListener) -> None:
        super().__init__()
        self._fake_mode = fake_mode
        self._shortcut = Shortcut(fake_mode)
        self._guessed = guessed

    @classmethod
    def limit(cls, more: float, over: Callable[[], object]) -> None:
        """After so many more operations call `over`, which raises, at each that follows: unlike a
        time this ends a loop at the same place on every machine. Infinitely many end none."""
        cls._most = cls.operations + more
        cls._over = staticmethod(over)

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        # Asked more often than anything else, above all by the fake mode: answered without it.
        if operator is _DEVICE:
            if args[0].fake_mode.in_kernel_invocation:
                return _META
            return args[0].fake_device
        KnownValues.operations += 1
        if KnownValues.operations > KnownValues._most:
            KnownValues._over()
        if isinstance(operator, torch._ops.HigherOrderOperator):
            # By the class of the mode, of which ours is a kind.
            rule = operator.python_key_table.get(FakeTensorMode)
            if rule is not None:
                with _disable_current_modes():
                    return rule(self._fake_mode, *args, **kwargs)
        if not isinstance(operator, torch._ops.OpOverload):
            return operator(*args, **kwargs)
        if operator in _READS:
            return self._read(args[0])
        body = BODIES.of(operator)
        if body is not None and is_on_card(args, kwargs):
            with self:
                return BODIES.run(operator, body, args, kwargs)
        if operator is _aten._to_copy.default and kwargs.get("device") == _META:
            # The stand-in for CUDA's device guard is meta's, which calls the current device meta.
            kwargs = {**kwargs, "device": torch.device("cuda", 0)}
        known = _computed(operator, args, kwargs)
        try:
            result = self._shortcut(operator, args, kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException):
            if known is None:
                self._guessed(_name(operator))
                known = _run(operator, *_imagined(operator, args, kwargs))
            result = self._faked(known, args, kwargs)
        _keep(operator, args, result, known)
        return result

    def _read(self, tensor: Any) -> Any:
        """What `.item()` gives; for an unknown tensor what lets most programs go on."""
        value = value_of(tensor)
        if value is not None:
            with _disable_current_modes():
                return value.item()
        self._guessed(_kind(tensor))
        return _guess(tensor)

    def _faked(self, known: Any, args: Any, kwargs: Any) -> Any:
        """A result's form, where only its values tell it; on the device of the first argument."""
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        device = next((tensor.device for tensor in tensors), None)

        def fake(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            with self._fake_mode:
                return torch.empty(leaf.shape, dtype=leaf.dtype, device=device)

        return tree_map(fake, known)


def _computed(operator: Any, args: Any, kwargs: Any) -> Any:
    """What an operation gives on the known values; None where it cannot be known cheaply."""
    # A quick look at the arguments themselves, for most operations have an unknown one.
    for argument in args:
        if isinstance(argument, FakeTensor) and value_of(argument) is None:
            return None
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if not _is_computable(operator, args, kwargs, tensors):
        return None
    try:
        return _run(operator, *tree_map(_plain, (args, kwargs)))
    except IndexError:
        # No form tells it: the fake operation would go on, with a value that nobody knows.
        if all(tensor.device.type == "cpu" for tensor in tensors):
            raise
        return None
    except (RuntimeError, ValueError, TypeError):
        # The fake operation says what is wrong, in the program's own terms.
        return None


def _is_computable(operator: Any, args: Any, kwargs: Any, tensors: list[Any]) -> bool:
    if not tensors:
        return _is_small_factory(operator, args, kwargs)
    floats = False
    for value in map(value_of, tensors):
        if value is None or value.numel() > _limit(value) or value.device.type != "cpu":
            return False
        floats = floats or value.is_floating_point()
    return not (floats and _name(operator).startswith(_UNORDERED))


def _limit(tensor: Any) -> int:
    if tensor.is_floating_point() or tensor.is_complex():
        return FLOATS_UP_TO
    return INTEGERS_UP_TO


def _is_small_factory(operator: Any, args: Any, kwargs: Any) -> bool:
    """A tensor made of nothing: integers, or floats that would come out alike again."""
    name, dtype = _name(operator), kwargs.get("dtype")
    if name.startswith(("rand", "normal")) and not name.startswith(("randint", "randperm")):
        return False
    floats = dtype is None or dtype.is_floating_point
    if floats and dtype is not None and name.startswith("empty"):
        return False
    size = 1
    if name in ("arange", "linspace", "randperm"):
        numbers = [abs(int(each)) for each in args if isinstance(each, (int, float))]
        size = max(numbers, default=0)
    elif args and isinstance(args[0], (list, tuple)):
        for extent in args[0]:
            size *= int(extent)
    if floats:
        return size <= FLOATS_UP_TO
    return size <= INTEGERS_UP_TO


def _plain(leaf: Any) -> Any:
    """What stands for an argument where an operation runs on the CPU."""
    if isinstance(leaf, torch.device):
        return _CPU
    if isinstance(leaf, torch.Tensor):
        return value_of(leaf)
    return leaf


def _imagined(operator: Any, args: Any, kwargs: Any) -> Any:
    """The arguments with a stand-in for each unknown tensor: a mask that is true, ones. Where no
    element differs from another and the answer is no tensor, one element tells as much as all."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    answers = any("Tensor" in str(value.type) for value in operator._schema.returns)
    unknown = all(value_of(tensor) is None for tensor in tensors)
    is_one_enough = not answers and unknown and len({tensor.shape for tensor in tensors}) == 1

    def imagine(leaf: Any) -> Any:
        plain = _plain(leaf)
        if plain is not None or not isinstance(leaf, torch.Tensor):
            return plain
        shape = leaf.shape
        if is_one_enough:
            shape = tuple(min(extent, 1) for extent in leaf.shape)
        with _disable_current_modes():
            return torch.full(shape, int(not _is_doubted(leaf)), dtype=leaf.dtype)

    return tree_map(imagine, (args, kwargs))


def _name(operator: Any) -> str:
    """Without its namespace and overload."""
    name: str = operator._schema.name
    return name.rpartition(":")[2]


def _kind(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _run(operator: Any, args: Any, kwargs: Any) -> Any:
    kwargs.pop("pin_memory", None)
    with _disable_current_modes():
        result = operator(*args, **kwargs)
        # What lies in fresh memory is nobody's value.
        if operator._schema.name.startswith(("aten::empty", "aten::new_empty")):
            result.zero_()
            setattr(result, _BLANK, True)
    return result


def _keep(operator: Any, args: Any, result: Any, known: Any) -> None:
    """Note the values behind a result, and that those are gone which an operation wrote over."""
    if known is not None:
        for fake, value in zip(tree_leaves(result), tree_leaves(known)):
            both = isinstance(fake, FakeTensor) and isinstance(value, torch.Tensor)
            if both and fake.shape == value.shape:
                keep_value(fake, value)
        return
    _remark(operator, args, result)
    if not operator._schema.is_mutable:
        return
    for argument, passed in zip(operator._schema.arguments, args):
        if argument.alias_info is not None and argument.alias_info.is_write:
            for tensor in tree_leaves(passed):
                if isinstance(tensor, FakeTensor):
                    keep_value(tensor, None)


def _guess(tensor: torch.Tensor) -> bool | int | float:
    """What `.item()` gives."""
    if tensor.is_floating_point():
        return 0.0
    if tensor.dtype == torch.bool:
        return not _is_doubted(tensor)
    return int(not _is_doubted(tensor))


def _is_doubted(tensor: object) -> bool:
    """Whether it says of each element something that should not be so."""
    return getattr(tensor, _DOUBTED, False)


def _remark(operator: Any, args: tuple[Any, ...], result: object) -> None:
    """Note where an operation asks for what should not be so, and where its answer goes."""
    if operator not in _OF_INTEREST or not isinstance(result, torch.Tensor):
        return
    asks = True
    if operator is _aten.ne.Tensor:
        # A value differs from itself only when it is not a number.
        asks = args[0] is args[1]
    elif operator in _COMPARING:
        asks = isinstance(args[1], float) and math.isinf(args[1])
    elif operator in _FOLLOWING:
        asks = all(_is_doubted(value) for value in args if isinstance(value, torch.Tensor))
    if asks:
        setattr(result, _DOUBTED, True)


def _to_list(self: Any) -> Any:
    value = value_of(self)
    if value is not None:
        with _disable_current_modes():
            return value.tolist()
    if self.dim() == 0:
        return self.item()
    if not self.numel():
        return _nested(tuple(self.shape), None)
    # Of a tensor that nobody knows, every entry is the same guess.
    return _nested(tuple(self.shape), self[(0,) * self.dim()].item())


def _nested(shape: tuple[int, ...], entry: Any) -> Any:
    if not shape:
        return entry
    return [_nested(shape[1:], entry) for _ in range(shape[0])]


def _address(self: Any) -> int:
    """An address of its own for every storage, aligned as the device's allocator aligns them."""
    start: int = self.untyped_storage()._cdata << _ALIGNED_BITS
    offset: int = self.storage_offset() * self.element_size()
    return start + offset


def install_readers(guessed: GuessListener) -> None:
    """What asks no dispatcher: the values of fake tensors, and where they would lie."""

    def to_numpy(self: Any, *_: object, **__: object) -> Any:
        value = value_of(self)
        if value is None:
            guessed(_kind(self))
        with _disable_current_modes():
            if value is None:
                value = torch.zeros(self.shape, dtype=self.dtype)
            return value.numpy()

    FakeTensor.data_ptr = _address
    FakeTensor.tolist = _to_list
    FakeTensor.numpy = to_numpy
