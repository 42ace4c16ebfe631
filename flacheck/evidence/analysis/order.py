"""Names and order of releases, targets, kernels and settings in output for people."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import InvalidVersion, Version

from flacheck.model import Cell

# Compilers whose name in a sentence differs from that in a requirement.
_NAMES = {"": "Triton", "triton": "Triton"}


def by_version(toolchain: str) -> tuple[str, Version, str]:
    """Return the sort key of `triton==3.2.0`: the name, then the PEP 440 version."""
    name, version = split(toolchain)
    # A name that is not a version ("dev") sorts before all that are.
    try:
        return name, Version(version), version
    except InvalidVersion:
        return name, Version("0"), version


def by_target(target: str) -> tuple[bool, str, int, str]:
    """Return the sort key of `sm90`: sm70 before sm100, NVIDIA before all others."""
    parts = re.match(r"([a-zA-Z]*)(\d*)", target)
    # The pattern matches any text.
    assert parts is not None
    letters, digits = parts.groups()
    return letters != "sm", letters, int(digits or 0), target


def split(toolchain: str) -> tuple[str, str]:
    """Return the name and version of `triton==3.2.0`; a version alone has an empty name."""
    name, _, version = toolchain.rpartition("==")
    return name, version


def short(toolchain: str) -> str:
    """Return the heading of a column: the version of a Triton, the identity of others."""
    return toolchain.removeprefix("triton==")


def toolchain_label(toolchain: str) -> str:
    """Return a compiler's name for a sentence: `Triton 3.2.0`, `nvcc 13.0.88`."""
    name, version = split(toolchain)
    return f"{_NAMES.get(name, name)} {version}"


def kernel_name(kernel: str) -> str:
    """Return the last part of a package kernel's name; flacheck's own names are short."""
    return kernel.rpartition(":")[2]


def parameters(cell: Cell) -> str:
    """Return the macros of a CUDA unit, `HEAD_DIM=64 ELEMENT=bf16`.

    It is empty for other kernels, whose dtype and options distinguish their cells.
    """
    if cell.kernel.language != "cuda" or cell.launch is None:
        return ""
    return settings({name: arg["constexpr"] for name, arg in cell.launch.args.items()})


def settings(values: Mapping[str, Any]) -> str:
    """Return `num_warps=4 BC=32`."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def some(texts: Sequence[str], most: int, more: str = "and {} more") -> list[str]:
    """Return the first few texts and the number of the others."""
    rest = len(texts) - most
    # The last text itself is not longer than the words "and 1 more".
    if rest <= 1:
        return list(texts)
    return [*texts[:most], more.format(rest)]


def count_noun(number: int, one: str, many: str = "") -> str:
    """Return `1 cell` or `2 cells`; `many` is an irregular plural."""
    if number == 1:
        return f"1 {one}"
    return f"{number} {many or one + 's'}"
