"""Where a recorded launch's tensors lie in memory: what it takes to make others like them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.model import Json
from flacheck.model.launch import FormError


@dataclass(frozen=True)
class Placed:
    """A tensor in the storage at the place `storage`: shape, strides and offset in elements; the
    `values` of integers in the order of their indices, None where they are floats, too many, or
    known to nobody."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    values: tuple[int, ...] | None = None

    def to_json(self) -> Json:
        placed: Json = {"storage": self.storage, "shape": [*self.shape], "strides": [*self.strides]}
        return {
            **placed,
            "offset": self.offset,
            "values": None if self.values is None else [*self.values],
        }


@dataclass(frozen=True)
class Memory:
    """The bytes of each storage of a launch, and its tensors by argument; `name[0]` is an item of a
    tuple, and a tensor descriptor's tensor has the argument's name."""

    storages: tuple[int, ...]
    tensors: Mapping[str, Placed]

    def to_json(self) -> Json:
        tensors = {name: placed.to_json() for name, placed in self.tensors.items()}
        return {"storages": list(self.storages), "tensors": tensors}


def memory(line: Json) -> Memory | None:
    """What a launch's line says of memory; None for a line that says nothing. FormError for what it
    cannot say."""
    if "tensors" not in line:
        return None
    storages, tensors = _numbers("storages", line.get("storages")), line["tensors"]
    if not isinstance(tensors, dict):
        raise FormError("tensors is a mapping of arguments")
    return Memory(
        storages, {name: _placed(name, placed, len(storages)) for name, placed in tensors.items()}
    )


def grids(line: Json) -> tuple[tuple[int, ...] | None, ...] | None:
    """The grid of each configuration, None for one that is not known; None for a line that names
    none."""
    found = line.get("grids")
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != len(line["launch"].get("configs", ())):
        raise FormError("grids is a list with a grid for each configuration")
    return tuple(None if grid is None else _grid(grid) for grid in found)


def _grid(value: Any) -> tuple[int, ...]:
    extents = _integers(value, "a grid")
    if len(extents) > 3:
        raise FormError("a grid is a list of up to three numbers")
    return extents


def _placed(name: str, value: Any, storages: int) -> Placed:
    if not isinstance(value, dict) or set(value) - {
        "storage",
        "shape",
        "strides",
        "offset",
        "values",
    }:
        raise FormError(f"tensor {name}: it has storage, shape, strides, offset and values")
    shape, strides = (
        _numbers(f"shape of {name}", value.get("shape")),
        _numbers("strides", value.get("strides")),
    )
    storage, offset = _numbers(
        f"storage and offset of {name}", [value.get("storage"), value.get("offset")]
    )
    values = (
        _integers(value["values"], f"values of {name}") if value.get("values") is not None else None
    )
    if storage >= storages or len(shape) != len(strides):
        raise FormError(
            f"tensor {name}: there is no storage {storage}, or shape and strides differ in length"
        )
    return Placed(storage, shape, strides, offset, values)


def _numbers(name: str, value: Any) -> tuple[int, ...]:
    found = _integers(value, name)
    if any(number < 0 for number in found):
        raise FormError(f"{name}: no number is below zero")
    return found


def _integers(value: Any, name: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(number) is int for number in value):
        raise FormError(f"{name}: a list of numbers is wanted")
    return tuple(value)
