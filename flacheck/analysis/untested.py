"""Untested: launches that flacheck made up, and whose outcome may be its own doing.

Derived when a question is answered, never stored. It counts neither for a release nor against it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flacheck.analysis.observed import Observed
from flacheck.analysis.order import by_target, by_version
from flacheck.model import Json, Verdict

# An API that is gone is gone whatever the arguments are.
_REMOVED_API = "FC101"
# An exact toolchain that cannot be had says nothing of a launch.
_NO_WHEEL = "FC903"
# Whether a tile fits into a GPU's memory depends on the sizes that were made up.
_RESOURCES = "FC5"
# What a kernel's own code and its arguments decide, before any of the compiler's passes.
_FRONT_END = ("import", "ast", "call")


@dataclass(frozen=True)
class Untested:
    """A kernel of which made-up launches say nothing on one release and target, and why."""

    kernel: str
    package: str | None
    toolchain: str
    target: str
    reason: str
    cells: int

    def to_json(self) -> Json:
        return dict(vars(self))


def why_untested(cell: Observed) -> str | None:
    """Why a cell is no evidence; None for one that is.

    A failure of a made-up launch is evidence when its arguments cannot have caused it: an API that
    was removed, a crash of the compiler, an error in one of its passes.
    """
    if not cell.made_up or cell.verdict in (Verdict.COMPILES, Verdict.SKIPPED):
        return None
    if cell.verdict is Verdict.UNKNOWN:
        if cell.code == _NO_WHEEL:
            return None
        return cell.reason or "no verdict"
    code = cell.code or ""
    if code == _REMOVED_API or cell.crashed:
        return None
    if code.startswith(_RESOURCES):
        return "the made-up sizes need more than the GPU has"
    if cell.stage in _FRONT_END:
        return "the made-up arguments may not fit the kernel"
    return None


def separated(cells: Iterable[Observed]) -> tuple[list[Observed], list[Observed]]:
    """The cells that count, and those that are untested.

    Where another configuration of the launch compiles, one that the autotuner skips or that timed
    out needs no excuse: it counts like any other.
    """
    cells = list(cells)
    served = {(cell.place, cell.launch) for cell in cells if cell.compiles}
    counted: list[Observed] = []
    untested: list[Observed] = []
    for cell in cells:
        excused = cell.tolerated or cell.verdict is Verdict.UNKNOWN
        if why_untested(cell) is None or (excused and (cell.place, cell.launch) in served):
            counted.append(cell)
        else:
            untested.append(cell)
    return counted, untested


def listed(untested: Sequence[Observed]) -> list[Untested]:
    """The untested cells by kernel, place and reason, in order."""
    counts: dict[tuple[str, str | None, str, str, str], int] = {}
    for cell in untested:
        reason = why_untested(cell) or ""
        group = (cell.kernel, cell.package, cell.toolchain, cell.target, reason)
        counts[group] = counts.get(group, 0) + 1
    made = [Untested(*group, count) for group, count in counts.items()]
    return sorted(
        made,
        key=lambda each: (
            by_version(each.toolchain),
            by_target(each.target),
            each.kernel,
            each.reason,
        ),
    )
