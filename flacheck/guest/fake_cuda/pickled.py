"""Fake tensors that are copied, saved, or sent to another process: their form, and their value
where one is known.

torch would copy or share the memory behind them, and there is none.
"""

from __future__ import annotations

import copy
import copyreg
import functools
import os
import pickle
from collections import OrderedDict, defaultdict

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from .known_values import keep_value, value_of

_MAGIC = b"flacheck: tensors without data\n"


def install() -> None:
    copyreg.pickle(FakeTensor, _reduced)
    FakeTensor.__deepcopy__ = _copied
    torch.save = _save
    torch.load = functools.partial(_load, torch.load)
    torch.utils.data._utils.collate.default_collate_fn_map[torch.Tensor] = _collated


def _reduced(tensor) -> tuple:
    form = (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.fake_device)
    remarks = (tensor.requires_grad, getattr(tensor, "_is_param", False))
    return _rebuilt, (*form, *remarks, _bytes_of(value_of(tensor)))


def _copied(tensor, memo: dict):
    """A copy with its gradient and with what the program hung on it."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user support the deepcopy protocol at the moment."
        )
    rebuild, form = _reduced(tensor)
    memo[id(tensor)] = twin = rebuild(*form)
    if tensor.grad is not None:
        twin.grad = copy.deepcopy(tensor.grad, memo)
    for name, value in vars(tensor).items():
        if name not in vars(twin):
            setattr(twin, name, copy.deepcopy(value, memo))
    return twin


def _bytes_of(value) -> bytes | None:
    if value is None or value.layout is not torch.strided:
        return None
    with _disable_current_modes():
        return value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _rebuilt(
    shape, stride, dtype, device, requires_grad: bool, is_parameter: bool, held: bytes | None
):
    tensor = torch.empty_strided(shape, stride, dtype=dtype, device=device)
    if is_parameter:
        tensor = torch.nn.Parameter(tensor, requires_grad)
    elif requires_grad:
        tensor.requires_grad_()
    keep_value(tensor, None if held is None else _value(held, shape, dtype))
    return tensor


def _value(held: bytes, shape, dtype):
    with _disable_current_modes():
        if not held:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(held), dtype=torch.uint8).view(dtype).reshape(shape)


def _collated(batch, *, collate_fn_map=None):
    """A batch that a worker of a DataLoader puts together: torch's own lays it out in shared
    memory.
    """
    return torch.stack(batch, 0)


def _save(thing, file, *args, **kwargs) -> None:
    """What a program saves is there when it looks for it, and can be loaded again on a card that is
    not there.
    """
    if hasattr(file, "write"):
        file.write(_MAGIC + pickle.dumps(thing))
    else:
        with open(file, "wb") as opened:
            _save(thing, opened)


def _load(plain, file, map_location=None, *args, **kwargs):
    """One of our own, or a file that torch wrote elsewhere."""
    if not hasattr(file, "read"):
        if not _is_ours(file):
            return plain(file, map_location, *args, **kwargs)
        with open(file, "rb") as opened:
            return _load(plain, opened, map_location, **kwargs)
    start = file.tell()
    if file.read(len(_MAGIC)) == _MAGIC:
        anything = kwargs.get("weights_only") is False
        return _on(map_location, (pickle.Unpickler if anything else _Weights)(file).load())
    file.seek(start)
    return plain(file, map_location, *args, **kwargs)


class _Weights(pickle.Unpickler):
    """Tensors and plain containers only, as torch.load promises unless it is told otherwise."""

    def find_class(self, module: str, name: str):
        found = (
            super().find_class(module, name)
            if module in ("torch", "collections", __name__)
            else None
        )
        if isinstance(found, torch.dtype) or found in (
            torch.device,
            torch.Size,
            OrderedDict,
            defaultdict,
            _rebuilt,
        ):
            return found
        raise pickle.UnpicklingError(
            f"Weights only load failed: {module}.{name} is no tensor; pass weights_only=False"
        )


def _on(place, thing):
    """Where the program wants its tensors; a function that maps storages has none to map."""
    if not isinstance(place, (str, torch.device)):
        return thing
    return tree_map(lambda leaf: leaf.to(place) if isinstance(leaf, torch.Tensor) else leaf, thing)


def _is_ours(path) -> bool:
    with open(os.fspath(path), "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
