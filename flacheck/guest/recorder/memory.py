"""Where a launch's tensors lie in memory, so that others like them can be made: no part of the
launch itself.

Their contents are random where it is timed; only the values of small integers, which kernels index
with, are kept.
"""

from __future__ import annotations

VALUES_UP_TO = 4096


def laid_out(arguments: dict) -> dict:
    """`storages`, each one's bytes, and `tensors` by argument: the place of its storage among
    those, its shape, strides and offset in elements, and the known `values` of integers in the
    order of its indices.

    An item of a tuple is called `name[0]`; a tensor descriptor's tensor has the argument's name.
    What is no tensor of torch's, or lies in no memory, is left out.
    """
    places: dict = {}
    tensors = {}
    for name, value in arguments.items():
        for path, tensor in _tensors(name, value):
            try:
                tensors[path] = _placed(tensor, places)
            except (AttributeError, RuntimeError):  # another library's tensor, or a sparse one
                continue
    return {"storages": [size for _, size in places.values()], "tensors": tensors}


def _tensors(path: str, value):
    if isinstance(value, (tuple, list)):
        for place, item in enumerate(value):
            yield from _tensors(f"{path}[{place}]", item)
    elif hasattr(value, "base") and hasattr(value, "block_shape"):
        yield path, value.base
    elif hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        yield path, value


def _placed(tensor, places: dict) -> dict:
    storage = tensor.untyped_storage()
    place, _ = places.setdefault(storage._cdata, (len(places), storage.nbytes()))
    shape, strides = (
        [int(extent) for extent in tensor.shape],
        [int(stride) for stride in tensor.stride()],
    )
    placed = {
        "storage": place,
        "shape": shape,
        "strides": strides,
        "offset": int(tensor.storage_offset()),
    }
    values = _values(tensor)
    return placed if values is None else {**placed, "values": values}


def _values(tensor) -> list | None:
    """What stands in a small tensor of integers or booleans, where that is known."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.numel() > VALUES_UP_TO:
        return None
    from ..fake_cuda.known_values import read

    return read(tensor)
