"""The sizes in which launches of one kernel differ in use: its head size, and packed sequences."""

import re
from collections.abc import Mapping
from typing import Any

from flacheck.model.launch import is_int

# The head sizes that most models have, the commonest first.
HEAD_SIZES = (128, 64, 256)
PACKED, OTHER = "packed", "other"
# Usual names of a kernel's head size. Where keys and values differ, that of the keys counts.
_HEAD_SIZE_NAMES = (
    *("K", "HEAD_DIM", "HEAD_SIZE", "head_dim", "head_size", "BLOCK_DMODEL", "D_HEAD", "d_head"),
    *("HEADDIM", "headdim", "DK", "dim_qk", "Lk", "V"),
)
_OFFSETS_NAME = re.compile(r"cu_?seq_?len|^offsets$", re.IGNORECASE)


def head_size(args: Mapping[str, Any]) -> int | None:
    """Return the head size among a launch's arguments; None without one."""
    for name in _HEAD_SIZE_NAMES:
        argument = args.get(name)
        if isinstance(argument, Mapping):
            value = argument.get("constexpr", argument.get("int"))
            if is_int(value):
                return int(value)
    return None


def is_packed(args: Mapping[str, Any]) -> bool:
    """Return True if a launch has the offsets of packed sequences."""
    for name, argument in args.items():
        if isinstance(argument, Mapping) and "dtype" in argument and _OFFSETS_NAME.search(name):
            return True
    return False


def takes_packed(args: Mapping[str, Any]) -> bool:
    """Return True if a launch's kernel has a parameter for the offsets of packed sequences."""
    return any(map(_OFFSETS_NAME.search, args))


def head_rank(args: Mapping[str, Any]) -> int:
    """Return the place of a launch's head size among the commonest ones."""
    size = head_size(args)
    return HEAD_SIZES.index(size) if size in HEAD_SIZES else len(HEAD_SIZES)


def size_class(args: Mapping[str, Any]) -> str:
    """Return `packed`, a common head size, or `other`: each is compiled once by default."""
    if is_packed(args):
        return PACKED
    size = head_size(args)
    return str(size) if size in HEAD_SIZES else OTHER
