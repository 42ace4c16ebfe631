"""Fake tensors that are copied, saved, or sent to another process: their form, and their value
where one is known, for torch would copy or share the memory behind them, and there is none.

And where a program puts its tensors: a device without a number, or a number alone, is the card that
is not there. torch asks the device's guard for the number, and the stand-in for CUDA's knows none:
a tensor that is already where it is to go would be copied, and a parameter that was copied is no
leaf."""

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
# What makes tensors and takes a device for them.
_FACTORIES = """
empty zeros ones full rand randn randint randperm arange linspace eye tensor as_tensor empty_like
zeros_like ones_like full_like rand_like randn_like randint_like empty_strided
""".split()
# Marks a file of ours: torch's own are archives or begin with a pickle's own mark.
_MAGIC = b"flacheck: tensors without data\n"


def install() -> None:
    """Have torch copy, save and load tensors without data, and put them on the card."""
    copyreg.pickle(FakeTensor, _reduced)
    FakeTensor.__deepcopy__ = _copied
    torch.save = _save
    torch.load = functools.partial(_load, torch.load)
    # A DataLoader worker's batch: torch's own lays it out in shared memory.
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


def _reduced(tensor: Any) -> tuple[Any, ...]:
    form = (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.fake_device)
    remarks = (tensor.requires_grad, getattr(tensor, "_is_param", False))
    value, held = value_of(tensor), None
    if value is not None and value.layout is torch.strided:
        with _disable_current_modes():
            flat = value.detach().contiguous().reshape(-1)
            held = flat.view(torch.uint8).numpy().tobytes()
    return _rebuilt, (*form, *remarks, held)


def _copied(tensor: Any, memo: dict[int, Any]) -> Any:
    """A copy with its gradient and with what the program hung on it."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user support the deepcopy protocol at the "
            "moment."
        )
    rebuild, form = _reduced(tensor)
    memo[id(tensor)] = twin = rebuild(*form)
    if tensor.grad is not None:
        twin.grad = copy.deepcopy(tensor.grad, memo)
    for name, value in vars(tensor).items():
        if name not in vars(twin):
            setattr(twin, name, copy.deepcopy(value, memo))
    return twin


def _rebuilt(
    shape: Any, stride: Any, dtype: Any, device: Any, grad: bool, parameter: bool, held: Any
) -> Any:
    """The tensor of that form; `grad`: whether it wants one, `held`: its value's bytes or None."""
    tensor = torch.empty_strided(shape, stride, dtype=dtype, device=device)
    if parameter:
        tensor = torch.nn.Parameter(tensor, grad)
    elif grad:
        tensor.requires_grad_()
    keep_value(tensor, None)
    if held is not None:
        with _disable_current_modes():
            value = torch.empty(shape, dtype=dtype)
            if held:
                flat = torch.frombuffer(bytearray(held), dtype=torch.uint8)
                value = flat.view(dtype).reshape(shape)
        keep_value(tensor, value)
    return tensor


def _save(thing: Any, file: Any, *args: Any, **kwargs: Any) -> None:
    """What a program saves is there when it looks for it, and can be loaded again."""
    if not hasattr(file, "write"):
        with open(file, "wb") as opened:
            return _save(thing, opened)
    file.write(_MAGIC + pickle.dumps(thing))


def _load(
    plain: Callable[..., Any], file: Any, map_location: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """One of our own, or a file that torch wrote elsewhere."""
    if not hasattr(file, "read"):
        with open(file, "rb") as opened:
            if opened.read(len(_MAGIC)) == _MAGIC:
                opened.seek(0)
                return _load(plain, opened, map_location, **kwargs)
        return plain(file, map_location, *args, **kwargs)
    start = file.tell()
    if file.read(len(_MAGIC)) != _MAGIC:
        file.seek(start)
        return plain(file, map_location, *args, **kwargs)
    unpickler: type[pickle.Unpickler] = _Weights
    if kwargs.get("weights_only") is False:
        unpickler = pickle.Unpickler
    thing = unpickler(file).load()
    # A function that maps storages has none to map.
    if not isinstance(map_location, (str, torch.device)):
        return thing

    def moved(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.to(map_location)
        return leaf

    return tree_map(moved, thing)


class _Weights(pickle.Unpickler):
    """Tensors and plain containers only, as torch.load promises unless it is told otherwise."""

    _harmless = (torch.device, torch.Size, OrderedDict, defaultdict, _rebuilt)

    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "collections", __name__):
            named = super().find_class(module, name)
            if isinstance(named, torch.dtype) or named in self._harmless:
                return named
        raise pickle.UnpicklingError(
            f"Weights only load failed: {module}.{name} is no tensor; pass weights_only=False"
        )


def _placing(plain: Callable[..., Any]) -> Any:
    """A method whose first argument may be a device."""

    @functools.wraps(plain)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = _numbered(kwargs["device"])
        return plain(self, *map(_numbered, args[:1]), *args[1:], **kwargs)

    return to


def _making(plain: Callable[..., Any]) -> Any:
    """A function that takes a device by name; most calls give none, or one with its number."""

    @functools.wraps(plain)
    def make(*args: Any, **kwargs: Any) -> Any:
        if type(kwargs.get("device")) is int:
            kwargs["device"] = torch.device("cuda", kwargs["device"])
        return plain(*args, **kwargs)

    return make


def _cuda(self: Any, device: Any = None, non_blocking: bool = False, **form: Any) -> Any:
    if device is None:
        device = _CARD
    return self.to(device, non_blocking=non_blocking, **form)


def _numbered(place: Any) -> Any:
    """A device with its number; what is no device (a dtype, another tensor) as it is."""
    if type(place) is int:
        return torch.device("cuda", place)
    if isinstance(place, str) and place == "cuda":
        return _CARD
    if isinstance(place, torch.device) and place.type == "cuda" and place.index is None:
        return _CARD
    return place


def _swap_tensors(mine: Any, other: Any) -> None:
    """A module moves its parameters so; torch's own gives up on fake ones with references."""
    mine.data = other
    mine.fake_device = other.fake_device
    keep_value(mine, value_of(other))
