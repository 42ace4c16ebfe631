"""What is written of an argument, as parts of a key that cost little: where two keys are equal, so
is what `described` says of the arguments. A kind of value that this does not know has no key."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .launch_description import ALIGNMENT, DESCRIPTOR_EXTRAS

# Written as they are; 1 and True are equal, so each part of a key comes after its type.
_PLAIN = (type(None), bool, int, str)


class UnkeyableValue(Exception):
    """A value that nothing short stands for."""


class Same:
    """Stands for one object and no other, however those compare; it keeps the object, so that no
    other gets its id."""

    __slots__ = ("thing",)

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.thing is other.thing


def add_argument(value: Any, key: list[Any]) -> None:
    """As `launch_description.argument` has it. Raises UnkeyableValue."""
    kind = type(value)
    if kind in _PLAIN:
        key += (kind, value)
    elif kind.__name__ == "constexpr":
        key.append(kind)
        add_constant(value.value, key)
    elif hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        key.append(kind)
        _add_tensor(value, key)
    elif isinstance(value, (tuple, list)):
        key += (kind, len(value))
        for item in value:
            add_argument(item, key)
    elif hasattr(value, "base") and hasattr(value, "block_shape"):
        key.append(kind)
        _add_descriptor(value, key)
    else:
        add_constant(value, key)


def add_constant(value: Any, key: list[Any]) -> None:
    """As `launch_description.constant` has it. Raises UnkeyableValue."""
    kind = type(value)
    if kind in _PLAIN:
        key += (kind, value)
    elif kind is float:
        # Zeros of either sign are equal, and no NaN is equal to itself.
        key += (kind, value.hex())
    elif kind.__name__ == "constexpr":
        key.append(kind)
        add_constant(value.value, key)
    elif kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        key += (kind, str(value))
    elif isinstance(value, (tuple, list)):
        key += (kind, len(value))
        for item in value:
            add_constant(item, key)
    elif kind.__name__ == "JITFunction":
        key += (kind, Same(value))
    else:
        raise UnkeyableValue


def _add_tensor(tensor: Any, key: list[Any]) -> None:
    key += (str(tensor.dtype), math.gcd(tensor.data_ptr(), ALIGNMENT))


def _add_descriptor(descriptor: Any, key: list[Any]) -> None:
    _add_tensor(descriptor.base, key)
    for extents in (descriptor.shape, descriptor.strides, descriptor.block_shape):
        _add_extents(extents, key)
    for name in DESCRIPTOR_EXTRAS:
        add_constant(getattr(descriptor, name, None), key)


def _add_extents(extents: Iterable[Any], key: list[Any]) -> None:
    key.append(tuple(map(int, extents)))
