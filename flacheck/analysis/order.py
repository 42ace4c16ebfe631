"""How releases, targets, kernels and settings are named and ordered where people read them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import InvalidVersion, Version

from flacheck.model import Cell

# Compilers whose name sentences write in another way than requirements.
_NAMES = {"": "Triton", "triton": "Triton"}


def by_version(toolchain: str) -> tuple[str, Version, str]:
    """Sort key of `triton==3.2.0`: the name, then the version as PEP 440 has it."""
    name, version = split(toolchain)
    # A name that is no version ("dev") sorts before all that are.
    try:
        return name, Version(version), version
    except InvalidVersion:
        return name, Version("0"), version


def by_target(target: str) -> tuple[bool, str, int, str]:
    """Sort key of `sm90`: sm70 before sm100, NVIDIA before all others."""
    parts = re.match(r"([a-zA-Z]*)(\d*)", target)
    # The pattern matches any text.
    assert parts is not None
    letters, digits = parts.groups()
    return letters != "sm", letters, int(digits or 0), target


def split(toolchain: str) -> tuple[str, str]:
    """`triton==3.2.0` as name and version; a version alone has an empty name."""
    name, _, version = toolchain.rpartition("==")
    return name, version


def short(toolchain: str) -> str:
    """The heading of a column: the version of a Triton, the whole identity of anything else."""
    return toolchain.removeprefix("triton==")


def toolchain_label(toolchain: str) -> str:
    """A compiler as sentences name it: `Triton 3.2.0`, `nvcc 13.0.88`."""
    name, version = split(toolchain)
    return f"{_NAMES.get(name, name)} {version}"


def kernel_name(kernel: str) -> str:
    """The last part of a package kernel's name; our own names are short as they are."""
    return kernel.rpartition(":")[2]


def parameters(cell: Cell) -> str:
    """The macros of a CUDA unit, `HEAD_DIM=64 ELEMENT=bf16`; of another kernel nothing, for its
    dtype and options tell its cells apart."""
    if cell.kernel.language != "cuda" or cell.launch is None:
        return ""
    return settings({name: held["constexpr"] for name, held in cell.launch.args.items()})


def settings(values: Mapping[str, Any]) -> str:
    """`num_warps=4 BC=32`."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def some(texts: Sequence[str], most: int, more: str = "and {} more") -> list[str]:
    """The first few texts and how many there are besides."""
    rest = len(texts) - most
    # In place of the words "and 1 more" the last text itself can stand.
    if rest <= 1:
        return list(texts)
    return [*texts[:most], more.format(rest)]


def count_noun(number: int, one: str, many: str = "") -> str:
    """`1 cell`, `2 cells`; `many` where the plural is more than an added s."""
    if number == 1:
        return f"1 {one}"
    return f"{number} {many or one + 's'}"
