"""Fake tensors that are copied, saved, or sent to another process: their form, and their value
where one is known. torch would copy or share the memory behind them, and there is none."""

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

# Marks a file of ours: torch's own are archives or begin with a pickle's own mark.
_MAGIC = b"flacheck: tensors without data\n"


def install() -> None:
    """Have torch copy, save and load tensors without data."""
    copyreg.pickle(FakeTensor, _reduced)
    FakeTensor.__deepcopy__ = _copied
    torch.save = _save
    torch.load = functools.partial(_load, torch.load)
    # A DataLoader worker's batch: torch's own lays it out in shared memory.
    collate = torch.utils.data._utils.collate.default_collate_fn_map
    collate[torch.Tensor] = lambda batch, **_: torch.stack(batch, 0)


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
