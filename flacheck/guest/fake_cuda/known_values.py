"""Real values for the few tensors whose values a host program reads: small ones of integers and
booleans.

Everything else on the fake device has a shape and a dtype only. A value is kept while all that it
is computed from is known; it goes when something unknown is written into it.
"""

from __future__ import annotations

import threading

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from . import guesses
from .shortcut import Shortcut

INTEGERS_UP_TO = 1 << 18
FLOATS_UP_TO = 1 << 12
_KEPT = "_flacheck_value"
_BLANK = "_flacheck_blank"
_ALIGNED_BITS = 9
_META = torch.device("meta")
_aten = torch.ops.aten
_READS = (_aten._local_scalar_dense.default, _aten.item.default)
_DEVICE = torch.ops.prim.device.default
_UNORDERED = ("rand", "normal", "bernoulli", "multinomial", "uniform", "exponential", "dropout")


def value_of(tensor):
    """The real CPU tensor behind a fake one, or None when nobody knows."""
    return getattr(tensor, _KEPT, None) if isinstance(tensor, FakeTensor) else tensor


def read(tensor) -> list | None:
    """The values of an integer tensor in the order of its indices, as integers; None when nobody
    knows them. On a real card a stream that is being captured cannot be read from.
    """
    known = value_of(tensor)
    if known is None or (known.is_cuda and torch.cuda.is_current_stream_capturing()):
        return None
    with _disable_current_modes():
        return [int(value) for value in known.reshape(-1).tolist()]


def forget_written(arguments) -> None:
    """A kernel was launched with these and may have written to them: floats, and what was fresh
    memory till now.

    Integers that the program put there, offsets of sequences above all, are what a kernel reads.
    """
    for tensor in arguments:
        value = getattr(tensor, _KEPT, None)
        if value is not None and (value.is_floating_point() or _is_blank(value)):
            setattr(tensor, _KEPT, None)


def _is_blank(value) -> bool:
    """Whether it is fresh memory into which the program has put nothing yet."""
    with _disable_current_modes():
        return getattr(value, _BLANK, False) and not value.any()


def copy_value(tensor, into) -> None:
    keep_value(into, value_of(tensor))


def keep_value(tensor, value) -> None:
    """`value` is the real CPU tensor behind a fake one, None when nobody knows."""
    setattr(tensor, _KEPT, value)


class NoDeviceMode(FakeTensorMode):
    """Fake tensors that never ask the device for anything, although torch.cuda says that there is
    one.
    """

    avoid_device_init = True
    _thread = threading.local()

    @property
    def in_kernel_invocation(self) -> bool:
        """torch keeps this in the mode, which all threads share, and what it must agree with in
        each thread.
        """
        return getattr(self._thread, "in_kernel", False)

    @in_kernel_invocation.setter
    def in_kernel_invocation(self, inside: bool) -> None:
        self._thread.in_kernel = inside


class KnownValues(TorchDispatchMode):
    """Entered above the fake mode: runs an operation on the known values beside the fake one.

    `guessed` is told what kind of value a program read that nobody knows.
    """

    def __init__(self, fake_mode, guessed) -> None:
        super().__init__()
        self._fake_mode = fake_mode
        self._shortcut = Shortcut(fake_mode)
        self._guessed = guessed

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if operator is _DEVICE:
            return _device_of(args[0])
        if not isinstance(operator, torch._ops.OpOverload):
            return operator(*args, **kwargs)
        if operator in _READS:
            return self._read(args[0])
        if operator is _aten._to_copy.default and kwargs.get("device") == _META:
            # The stand-in for CUDA's device guard is meta's, which calls the current device meta.
            kwargs = {**kwargs, "device": torch.device("cuda", 0)}
        result, known = self._faked(operator, args, kwargs, self._known(operator, args, kwargs))
        _keep(operator, args, result, known)
        return result

    def _read(self, tensor):
        """What `.item()` gives; for an unknown tensor what lets most programs go on."""
        value = value_of(tensor)
        if value is not None:
            with _disable_current_modes():
                return value.item()
        self._guessed(_kind(tensor))
        return guesses.scalar(tensor)

    def _known(self, operator, args, kwargs):
        if _plainly_unknown(args):
            return None
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not _computable(operator, args, kwargs, tensors):
            return None
        with _disable_current_modes():
            plain = tree_map(_plain, (args, kwargs))
            try:
                return _run(operator, *plain)
            except IndexError:
                if all(tensor.device.type == "cpu" for tensor in tensors):
                    raise  # no form tells it: the fake operation would go on, with a value nobody knows
                return None
            except (RuntimeError, ValueError, TypeError):
                return None  # the fake operation says what is wrong, in the program's own terms

    def _faked(self, operator, args, kwargs, known):
        try:
            return self._shortcut(operator, args, kwargs), known
        except (DynamicOutputShapeException, DataDependentOutputException):
            if known is None:
                self._guessed(operator._schema.name.rpartition(":")[2])
                known = _guess(operator, args, kwargs)
        device = next(
            (leaf.device for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)),
            None,
        )
        return tree_map(lambda leaf: self._on(leaf, device), known), known

    def _on(self, leaf, device):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        with self._fake_mode:
            return torch.empty(leaf.shape, dtype=leaf.dtype, device=device)


def _device_of(tensor) -> torch.device:
    """Asked more often than anything else, above all by the fake mode itself: answered without it."""
    return _META if tensor.fake_mode.in_kernel_invocation else tensor.fake_device


def _plainly_unknown(args) -> bool:
    """Whether an argument itself is unknown: a quick look, for that is how it is with most
    operations.
    """
    return any(isinstance(argument, FakeTensor) and value_of(argument) is None for argument in args)


def _computable(operator, args, kwargs, tensors) -> bool:
    """Whether all that goes in is known and cheap."""
    if not tensors:
        return _small_factory(operator, args, kwargs)
    values = [value_of(tensor) for tensor in tensors]
    if not all(v is not None and v.numel() <= _limit(v) and v.device.type == "cpu" for v in values):
        return False
    drawn = operator._schema.name.rpartition(":")[2].startswith(_UNORDERED)
    return not drawn or not any(v.is_floating_point() for v in values)


def _limit(tensor) -> int:
    return FLOATS_UP_TO if tensor.is_floating_point() or tensor.is_complex() else INTEGERS_UP_TO


def _small_factory(operator, args, kwargs) -> bool:
    """A tensor made of nothing: integers by any recipe, floats only by one that gives the same
    again.
    """
    name = operator._schema.name.rpartition(":")[2]
    dtype = kwargs.get("dtype")
    floats = name.startswith(("rand", "normal")) and not name.startswith(("randint", "randperm"))
    if floats or (dtype is not None and dtype.is_floating_point and name.startswith("empty")):
        return False
    size = 1
    for extent in args[0] if args and isinstance(args[0], (list, tuple)) else ():
        size *= int(extent)
    if name in ("arange", "linspace", "randperm"):
        size = max((abs(int(a)) for a in args if isinstance(a, (int, float))), default=0)
    return size <= (FLOATS_UP_TO if dtype is None or dtype.is_floating_point else INTEGERS_UP_TO)


def _plain(leaf):
    if isinstance(leaf, torch.Tensor):
        return value_of(leaf)
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


def _supposed(leaf):
    if not isinstance(leaf, torch.Tensor):
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf
    value = value_of(leaf)
    return guesses.stand_in(leaf) if value is None else value


def _guess(operator, args, kwargs):
    """The operation on what stands in for unknown tensors: a mask that is true, ones."""
    with _disable_current_modes():
        plain = tree_map(_supposed, (args, kwargs))
        return _run(operator, *plain)


def _kind(tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _run(operator, args, kwargs):
    kwargs = {name: value for name, value in kwargs.items() if name != "pin_memory"}
    result = operator(*args, **kwargs)
    if operator._schema.name.startswith(("aten::empty", "aten::new_empty")):
        result.zero_()  # what lies in fresh memory is nobody's value
        setattr(result, _BLANK, True)
    return result


def _keep(operator, args, result, known) -> None:
    if known is None:
        guesses.remark(operator, args, result)
        if operator._schema.is_mutable:
            _forget_written(operator, args)
        return
    for fake, value in zip(tree_leaves(result), tree_leaves(known)):
        if (
            isinstance(fake, FakeTensor)
            and isinstance(value, torch.Tensor)
            and fake.shape == value.shape
        ):
            setattr(fake, _KEPT, value)


def _forget_written(operator, args) -> None:
    for argument, passed in zip(operator._schema.arguments, args):
        if argument.alias_info is not None and argument.alias_info.is_write:
            for tensor in tree_leaves(passed):
                if isinstance(tensor, FakeTensor):
                    setattr(tensor, _KEPT, None)


def _to_list(self):
    value = value_of(self)
    if value is None:
        return _plain_to_list(self)
    with _disable_current_modes():
        return value.tolist()


def _plain_to_list(self):
    return self.item() if self.dim() == 0 else [row.tolist() for row in self]


def _to_numpy(self, guessed):
    value = value_of(self)
    if value is None:
        guessed(_kind(self))
    with _disable_current_modes():
        value = torch.zeros(self.shape, dtype=self.dtype) if value is None else value
        return value.numpy()


def _address(self) -> int:
    """An address of its own for every storage, aligned as the device's allocator aligns them."""
    return (
        self.untyped_storage()._cdata << _ALIGNED_BITS
    ) + self.storage_offset() * self.element_size()


def install_readers(guessed) -> None:
    """What asks no dispatcher: the values of fake tensors, and where they would lie."""
    FakeTensor.data_ptr = _address
    FakeTensor.tolist = _to_list
    FakeTensor.numpy = lambda self, *_, **__: _to_numpy(self, guessed)
