"""Arguments as parts of a cheap key.

If two keys are equal, `launch_description` gives the same description of the arguments. Values of
unsupported kinds are unkeyable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .launch_description import ALIGNMENT, DESCRIPTOR_EXTRAS

# Values that are part of a key unchanged. 1 and True are equal, so each part of a key follows its
# type.
_PLAIN = (type(None), bool, int, str)


class UnkeyableValue(Exception):
    """A value that no short key represents."""


class Same:
    """A key part for one object, compared by identity.

    It keeps the object, so that no other object gets its id.
    """

    __slots__ = ("thing",)

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.thing is other.thing


def add_argument(value: Any, key: list[Any]) -> None:
    """Add an argument to the key, as `launch_description.argument` describes it.

    Raises UnkeyableValue for a value of an unsupported kind.
    """
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
    """Add a constant to the key, as `launch_description.constant` describes it.

    Raises UnkeyableValue for a value of an unsupported kind.
    """
    kind = type(value)
    if kind in _PLAIN:
        key += (kind, value)
    elif kind is float:
        # The two zeros are equal, and a NaN does not equal itself.
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
    alignment = math.gcd(tensor.data_ptr(), ALIGNMENT)
    key += (str(tensor.dtype), alignment)


def _add_descriptor(descriptor: Any, key: list[Any]) -> None:
    _add_tensor(descriptor.base, key)
    for extents in (descriptor.shape, descriptor.strides, descriptor.block_shape):
        _add_extents(extents, key)
    for name in DESCRIPTOR_EXTRAS:
        add_constant(getattr(descriptor, name, None), key)


def _add_extents(extents: Iterable[Any], key: list[Any]) -> None:
    numbers = tuple(map(int, extents))
    key.append(numbers)
