"""Fake tensors that are copied, saved, sent to a process or placed on the card.

Fake tensors keep their form and their known value: torch would copy or share the memory behind
them, which does not exist.

A device without an index, or an index alone, means the imitated card. torch gets the index from the
device's guard, and the stand-in for CUDA's guard has none. Then a tensor that is already in place
would be copied, and a parameter that was copied is not a leaf.
"""

from __future__ import annotations

import copy
import copyreg
import functools
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from .known_values import keep_value, value_of

_CARD = torch.device("cuda", 0)
# Functions that make tensors on a device.
_FACTORIES = """
empty zeros ones full rand randn randint randperm arange linspace eye tensor as_tensor empty_like
zeros_like ones_like full_like rand_like randn_like randint_like empty_strided
""".split()
# The mark of flacheck's files. torch's own files are archives or start with the mark of a pickle.
_MAGIC = b"flacheck: tensors without data\n"


def install() -> None:
    """Make torch copy, save and load tensors without data, and put them on the card."""
    copyreg.pickle(FakeTensor, _reduce)
    FakeTensor.__deepcopy__ = _deep_copy
    torch.save = _save
    torch.load = functools.partial(_load, torch.load)
    # The batch of a DataLoader's worker, which torch itself puts in shared memory.
    collate = torch.utils.data._utils.collate.default_collate_fn_map
    collate[torch.Tensor] = lambda batch, **_: torch.stack(batch, 0)
    torch.Tensor.to = _placing(torch.Tensor.to)
    torch.Tensor.cuda = _cuda
    torch.nn.Module.to = _placing(torch.nn.Module.to)
    for name in _FACTORIES:
        setattr(torch, name, _making(getattr(torch, name)))
    torch.utils.swap_tensors = _swap_tensors
    torch.Tensor.pin_memory = lambda self, *_: self
    torch.Tensor.is_pinned = lambda self, *_: False
    torch.Tensor.record_stream = lambda self, *_: None


def _reduce(tensor: Any) -> tuple[Any, ...]:
    shape = tuple(tensor.shape)
    form = (shape, tensor.stride(), tensor.dtype, tensor.fake_device)
    is_parameter = getattr(tensor, "_is_param", False)
    remarks = (tensor.requires_grad, is_parameter)
    value = value_of(tensor)
    value_bytes = None
    if value is not None and value.layout is torch.strided:
        with _disable_current_modes():
            flat = value.detach().contiguous().reshape(-1)
            value_bytes = flat.view(torch.uint8).numpy().tobytes()
    return _rebuild, (*form, *remarks, value_bytes)


def _deep_copy(tensor: Any, memo: dict[int, Any]) -> Any:
    """Return a copy with the gradient and with the program's own attributes."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user support the deepcopy protocol at the "
            "moment."
        )
    rebuild, form = _reduce(tensor)
    memo[id(tensor)] = twin = rebuild(*form)
    if tensor.grad is not None:
        twin.grad = copy.deepcopy(tensor.grad, memo)
    for name, value in vars(tensor).items():
        if name not in vars(twin):
            setattr(twin, name, copy.deepcopy(value, memo))
    return twin


def _rebuild(
    shape: Any,
    stride: Any,
    dtype: Any,
    device: Any,
    grad: bool,
    parameter: bool,
    value_bytes: Any,
) -> Any:
    """Return a tensor of that form.

    `grad` is True if it requires a gradient, `value_bytes` holds the bytes of its value or is None.
    """
    tensor = torch.empty_strided(shape, stride, dtype=dtype, device=device)
    if parameter:
        tensor = torch.nn.Parameter(tensor, grad)
    elif grad:
        tensor.requires_grad_()
    keep_value(tensor, None)
    if value_bytes is not None:
        with _disable_current_modes():
            value = torch.empty(shape, dtype=dtype)
            if value_bytes:
                flat = torch.frombuffer(bytearray(value_bytes), dtype=torch.uint8)
                value = flat.view(dtype).reshape(shape)
        keep_value(tensor, value)
    return tensor


def _save(thing: Any, file: Any, *args: Any, **kwargs: Any) -> None:
    """Save an object so that the file exists and can be loaded again."""
    if not hasattr(file, "write"):
        with open(file, "wb") as stream:
            return _save(thing, stream)
    file.write(_MAGIC + pickle.dumps(thing))


def _load(
    plain: Callable[..., Any], file: Any, map_location: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """Load a file of flacheck's, or one that torch wrote elsewhere."""
    if not hasattr(file, "read"):
        with open(file, "rb") as stream:
            if stream.read(len(_MAGIC)) == _MAGIC:
                stream.seek(0)
                return _load(plain, stream, map_location, **kwargs)
        return plain(file, map_location, *args, **kwargs)
    start = file.tell()
    if file.read(len(_MAGIC)) != _MAGIC:
        file.seek(start)
        return plain(file, map_location, *args, **kwargs)
    unpickler: type[pickle.Unpickler] = _Weights
    if kwargs.get("weights_only") is False:
        unpickler = pickle.Unpickler
    thing = unpickler(file).load()
    # Without storages, a function that maps them does nothing.
    if not isinstance(map_location, (str, torch.device)):
        return thing

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.to(map_location)
        return leaf

    return tree_map(move, thing)


class _Weights(pickle.Unpickler):
    """An unpickler of tensors and plain containers only, torch.load's default."""

    _harmless = (torch.device, torch.Size, OrderedDict, defaultdict, _rebuild)

    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "collections", __name__):
            value = super().find_class(module, name)
            if isinstance(value, torch.dtype) or value in self._harmless:
                return value
        raise pickle.UnpicklingError(
            f"Weights only load failed: {module}.{name} is no tensor; pass weights_only=False"
        )


def _placing(plain: Callable[..., Any]) -> Any:
    """Return a method whose first argument may be a device."""

    @functools.wraps(plain)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = _with_index(kwargs["device"])
        first = map(_with_index, args[:1])
        return plain(self, *first, *args[1:], **kwargs)

    return to


def _making(plain: Callable[..., Any]) -> Any:
    """Return a function that takes a device by name."""

    @functools.wraps(plain)
    def make(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None:
            kwargs["device"] = _with_index(kwargs["device"])
        return plain(*args, **kwargs)

    return make


def _cuda(self: Any, device: Any = None, non_blocking: bool = False, **form: Any) -> Any:
    if device is None:
        device = _CARD
    return self.to(device, non_blocking=non_blocking, **form)


def _with_index(place: Any) -> Any:
    """Return a device with its index; any other value (a dtype, a tensor) unchanged."""
    if type(place) is int:
        return torch.device("cuda", place)
    if isinstance(place, str) and place == "cuda":
        return _CARD
    if not isinstance(place, torch.device):
        return place
    if place.type == "cuda" and place.index is None:
        return _CARD
    return place


def _swap_tensors(mine: Any, other: Any) -> None:
    """Swap a module's parameter with another tensor.

    torch's own function fails for fake tensors with references.
    """
    mine.data = other
    mine.fake_device = other.fake_device
    keep_value(mine, value_of(other))
