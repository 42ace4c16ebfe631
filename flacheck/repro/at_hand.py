"""The releases a reproduction is tried on, made ready."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from flacheck import toolchains
from flacheck.errors import FlacheckError, ToolchainError
from flacheck.model import Cell
from flacheck.toolchains.base import Choice, Progress, Toolchain


def releases(cell: Cell, specs: Sequence[str], progress: Progress) -> dict[str, Toolchain]:
    """Those asked for, or every release with a wheel for this Python, and the cell's own; oldest
    first.

    A release that does not know the cell's target, or cannot be had, is left out and named. Raises
    ToolchainError when the cell's own cannot be had.
    """
    found = toolchains.resolve(specs) if specs else toolchains.FAMILIES["triton"].versions()
    for warning in found.warnings:
        progress(warning)
    own = toolchains.resolve([cell.toolchain]).choices
    choices = {choice.identity: choice for choice in [*found.choices, *own]}
    ordered = sorted(choices.values(), key=lambda choice: Version(choice.version))
    ready = {choice.identity: _provided(choice, cell, progress) for choice in ordered}
    if ready[cell.toolchain] is None:
        raise ToolchainError(
            f"{cell.toolchain}, on which the cell fails, cannot be had here for {cell.target}"
        )
    return {name: toolchain for name, toolchain in ready.items() if toolchain is not None}


def _provided(choice: Choice, cell: Cell, progress: Progress) -> Toolchain | None:
    why = choice.reason or choice.knows(cell.target)
    try:
        toolchain = None if why else toolchains.provide(choice, progress)
        why = why or (toolchain.lacks(cell.target) if toolchain else None)
    except FlacheckError as error:
        toolchain, why = None, str(error)
    if why:
        progress(f"{choice.identity} is left out: {why}")
        return None
    return toolchain
