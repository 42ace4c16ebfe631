"""The order in which releases and targets are shown."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version


def by_version(toolchain: str) -> tuple[str, Version, str]:
    """Sort key of `triton==3.2.0`: the name, then the version as PEP 440 has it."""
    name, version = split(toolchain)
    try:
        return name, Version(version), version
    except InvalidVersion:
        return name, Version("0"), version


def by_target(target: str) -> tuple[bool, str, int, str]:
    """Sort key of `sm90`: sm70 before sm100, NVIDIA before all others."""
    letters, digits = re.match(r"([a-zA-Z]*)(\d*)", target).groups()  # type: ignore[union-attr]  # matches anything
    return letters != "sm", letters, int(digits or 0), target


def split(toolchain: str) -> tuple[str, str]:
    """`triton==3.2.0` as name and version; a version alone has an empty name."""
    name, separator, version = toolchain.partition("==")
    return (name, version) if separator else ("", name)


def short(toolchain: str) -> str:
    """What a column is headed with: the version of a Triton, the whole identity of anything else."""
    name, version = split(toolchain)
    return version if name == "triton" else toolchain
