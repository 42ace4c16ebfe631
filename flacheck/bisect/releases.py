"""Which releases a bisection looks at."""

from __future__ import annotations

from collections.abc import Sequence

from flacheck import toolchains
from flacheck.analysis.order import by_version, split
from flacheck.errors import FlacheckError, UsageError
from flacheck.model import Cell
from flacheck.toolchains.base import Choice, Resolution


def releases(cell: Cell, specs: Sequence[str], chose: bool = False) -> Resolution:
    """Those asked for, or all of the cell's compiler with a wheel for this Python; with the cell's
    own, oldest first.

    `chose`: the specifications took part in choosing the cell, so a single release among them is
    the cell's own and says nothing of where to look. Raises UsageError when there are not two to
    compare.
    """
    found = toolchains.resolve(specs) if specs else None
    if found is None or (chose and len(found.choices) == 1):
        found = toolchains.FAMILIES[split(cell.toolchain)[0]].versions()
    own = (
        []
        if any(choice.identity == cell.toolchain for choice in found.choices)
        else _own(cell.toolchain)
    )
    choices = sorted([*found.choices, *own], key=lambda choice: by_version(choice.identity))
    if len(choices) < 2:
        names = ", ".join(choice.identity for choice in choices) or "no release"
        raise UsageError(
            f"only {names} is to be looked at: --triton must leave two releases or more"
        )
    return Resolution(tuple(choices), found.warnings)


def _own(toolchain: str) -> list[Choice]:
    """The cell's own compiler; none for a build that only its path leads to."""
    try:
        return list(toolchains.resolve([toolchain]).choices)
    except FlacheckError:
        return []
