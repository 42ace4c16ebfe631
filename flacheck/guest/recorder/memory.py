"""Where a launch's tensors lie in memory, so that others like them can be made: no part of the
launch itself.

Their contents are random where it is timed; only the values of small integers, which kernels index
with, are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Offsets of sequences and the like; more would make a line of the launches file long.
_VALUES_UP_TO = 4096
# By the storage's identity: its index among those of the launch, and its size in bytes.
_Storages = dict[int, tuple[int, int]]


def laid_out(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`storages`, each one's bytes, and `tensors` by argument: the index of its storage among
    those, its shape, strides and offset in elements, and the known `values` of integers in the
    order of its indices.

    An item of a tuple is called `name[0]`; a tensor descriptor's tensor has the argument's name.
    What is no tensor of torch's, or lies in no memory, is left out.
    """
    storages: _Storages = {}
    tensors = {}
    for name, value in arguments.items():
        for path, tensor in _tensors(name, value):
            try:
                tensors[path] = _in_storage(tensor, storages)
            except (AttributeError, RuntimeError):  # another library's tensor, or a sparse one
                continue
    return {"storages": [size for _, size in storages.values()], "tensors": tensors}


def _tensors(path: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _tensors(f"{path}[{index}]", item)
    elif hasattr(value, "base") and hasattr(value, "block_shape"):
        yield path, value.base
    elif hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        yield path, value


def _in_storage(tensor: torch.Tensor, storages: _Storages) -> dict[str, Any]:
    storage = tensor.untyped_storage()
    index, _ = storages.setdefault(storage._cdata, (len(storages), storage.nbytes()))
    entry: dict[str, Any] = {
        "storage": index,
        "shape": [int(extent) for extent in tensor.shape],
        "strides": [int(stride) for stride in tensor.stride()],
        "offset": int(tensor.storage_offset()),
    }
    values = _values(tensor)
    if values is not None:
        entry["values"] = values
    return entry


def _values(tensor: torch.Tensor) -> list[int] | None:
    """The values of a small tensor of integers or booleans, where they are known."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.numel() > _VALUES_UP_TO:
        return None
    from ..fake_cuda import known_values

    return known_values.read(tensor)
