"""Untested: launches that flacheck made up, and whose outcome may be its own doing.

Derived when a question is answered, never stored. It counts neither for a release nor against it.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import by_target, by_version
from flacheck.model import Json, Verdict

# An API that is gone is gone whatever the arguments are.
_REMOVED_API = "FC101"
_UNCLASSIFIED = "FC000"
# An exact toolchain that cannot be had says nothing of a launch.
_NO_WHEEL = "FC903"
# Whether a tile fits into a GPU's memory depends on the sizes that were made up.
_RESOURCES = "FC5"
# So does whether a GPU has an instruction depend on the dtypes.
_FEATURE = "FC401"
# What a kernel's own code and its arguments decide, before any of the compiler's passes. An
# autotuner's run is in the front end until the first pass begins.
_FRONT_END = ("import", "ast", "call", "autotune")
# What the front end makes is verified before the first pass: old releases say there what new ones
# say in the front end, that the kernel's own operands do not go together.
_FIRST_PASS = "ttir"
_VERIFIED = re.compile(r"error: '[\w.]+' op ")
# What an autotuner makes of its key, by the arguments' places and not by what they hold.
_AUTOTUNER = "FC6"
# What Python calls an argument that was left out.
_LEFT_OUT = "NoneType"


@dataclass(frozen=True)
class UntestedGroup:
    """A kernel of which made-up launches say nothing on one release and target, and why."""

    kernel: str
    package: str | None
    toolchain: str
    target: str
    reason: str
    cells: int

    def to_json(self) -> Json:
        return dict(vars(self))


def why_untested(cell: ObservedCell) -> str | None:
    """Why a cell is no evidence by itself; None for one that is.

    A failure of a made-up launch is evidence when its arguments cannot have caused it: an API that
    is gone, which no argument leads to, a module that cannot be imported for a known reason, a
    crash of the compiler, an error in one of its passes.
    """
    if not cell.made_up or cell.verdict in (Verdict.COMPILES, Verdict.SKIPPED):
        return None
    if cell.verdict is Verdict.UNKNOWN:
        if cell.code == _NO_WHEEL:
            return None
        return cell.reason or "no verdict"
    code = cell.code or _UNCLASSIFIED
    if code == _REMOVED_API or cell.api is not None or cell.is_crash:
        return None
    if cell.stage == "import" and code != _UNCLASSIFIED:
        return None
    if cell.stage == "autotune" and code.startswith(_AUTOTUNER):
        return None
    if code.startswith(_RESOURCES):
        return "the made-up sizes need more than the GPU has"
    if code == _FEATURE:
        return "the made-up dtypes may be none that the GPU is used with"
    is_verified = cell.stage == _FIRST_PASS and _VERIFIED.search(cell.line)
    if cell.stage in _FRONT_END or is_verified:
        return "the made-up arguments may not fit the kernel"
    return None


def separate_untested(
    cells: Iterable[ObservedCell], beside: Iterable[ObservedCell] = ()
) -> tuple[list[ObservedCell], list[ObservedCell]]:
    """The cells that count, and those that are untested.

    Where another configuration of the launch compiles, one that the autotuner skips or that timed
    out needs no excuse: it counts like any other. `beside` are more cells of the question, such as
    those of other shards: what all variants of a kernel share is judged over all of them.
    """
    cells = list(cells)
    known = {cell.key: cell for cell in beside}
    known.update((cell.key, cell) for cell in cells)
    served = {(cell.place, cell.launch) for cell in known.values() if cell.compiles}
    shared = _shared(known.values())
    counted: list[ObservedCell] = []
    untested: list[ObservedCell] = []
    for cell in cells:
        excused = cell.tolerated or cell.verdict is Verdict.UNKNOWN
        is_evidence = why_untested(cell) is None or cell.key in shared
        if is_evidence or (excused and (cell.place, cell.launch) in served):
            counted.append(cell)
        else:
            untested.append(cell)
    return counted, untested


def _shared(cells: Iterable[ObservedCell]) -> set[str]:
    """The keys of made-up launches whose failure all launches of their kernel share, whatever was
    made up for them: then it is the kernel's own."""
    kernels: dict[tuple[Any, ...], list[ObservedCell]] = {}
    for cell in cells:
        kernels.setdefault((cell.package, cell.kernel, cell.place), []).append(cell)
    keys: set[str] = set()
    for launched in kernels.values():
        tried = [cell for cell in launched if cell.verdict is not Verdict.SKIPPED]
        alike = {(cell.signature, cell.fails) for cell in tried}
        if len(alike) == 1 and tried[0].fails and _are_varied(tried):
            keys.update(cell.key for cell in tried)
    return keys


def _are_varied(cells: Sequence[ObservedCell]) -> bool:
    """Whether nothing that was made up is the same in all of these launches of one kernel: dtypes
    and sizes differ, and no argument was left out everywhere."""
    if any(_LEFT_OUT in cell.line for cell in cells):
        return False
    if len({cell.dtype for cell in cells}) < 2:
        return False
    launches = [json.loads(cell.parts.identity)[0] for cell in cells if cell.parts.identity]
    for name in {name for launch in launches for name in launch}:
        values = [launch.get(name) for launch in launches]
        if all(value is None for value in values):
            return False
        sizes = {_size(value) for value in values}
        if len(sizes) == 1 and None not in sizes:
            return False
    return bool(launches)


def _size(argument: Any) -> int | None:
    """The integer that an argument is; None for a tensor, a flag and any other."""
    if not isinstance(argument, Mapping):
        return None
    held = argument.get("int", argument.get("constexpr"))
    if type(held) is int:
        return held
    return None


def group_untested(untested: Sequence[ObservedCell]) -> list[UntestedGroup]:
    """The untested cells by kernel, place and reason, in order."""
    counts: dict[tuple[str, str | None, str, str, str], int] = {}
    for cell in untested:
        reason = why_untested(cell) or ""
        group = (cell.kernel, cell.package, cell.toolchain, cell.target, reason)
        counts[group] = counts.get(group, 0) + 1
    made = [UntestedGroup(*group, count) for group, count in counts.items()]
    return sorted(
        made,
        key=lambda each: (
            by_version(each.toolchain),
            by_target(each.target),
            each.kernel,
            each.reason,
        ),
    )
