"""Untested cells: invented launches whose outcome the invention may have caused.

They are derived when a question is answered, never stored, and count neither for a release nor
against it.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import by_target, by_version
from flacheck.model import Verdict
from flacheck.model.launch import find_dtype
from flacheck.model.wire import Count, JsonStruct, NotEmpty, ToolchainName
from flacheck.rules import blames_release

# A removed API is missing whatever the arguments are.
_REMOVED_API = "FC101"
_UNCLASSIFIED = "FC000"
# A toolchain that cannot be installed proves nothing about a launch.
_NO_WHEEL = "FC903"
# The invented sizes decide if a tile fits into a GPU's memory.
_RESOURCES = "FC5"
# The invented dtypes decide if a GPU has the instruction.
_FEATURE = "FC401"
# Stages that depend on a kernel's own code and its arguments, before any of the compiler's passes.
# An autotuner's run is in the front end until the first pass begins.
_FRONT_END = ("import", "ast", "call", "autotune")
# The front end's output is verified before the first pass. Old releases report there that a
# kernel's own operands do not match; new ones report it in the front end.
_FIRST_PASS = "ttir"
# Stages whose outcome a newer release shows by compiling the same launch.
_COMPARABLE = ("ast", _FIRST_PASS)
_VERIFIER_ERROR = re.compile(r"error: '[\w.]+' op ")
# Operands of an operation have different types, which may be those of made-up tensors.
_MISMATCH_ERROR = re.compile(r"requires the same (?:element )?type for all")
# Old releases reject tiles of a dot that are smaller than the GPU's, newer ones pad them.
_SMALL_TILES = "FC105"
# An autotuner builds its key from the arguments' positions, not from their values.
_AUTOTUNER = "FC6"
# `int32` or `i32` in an error: an invented integer tensor is rarely one that the kernel computes
# with.
_INTEGER_DTYPE = re.compile(r"\bu?i(?:nt)?\d+\b")
# The most arguments that a reason lists by name.
_MAX_NAMES = 3
# Python's name for an argument that was left out.
_LEFT_OUT = "NoneType"


class UntestedGroup(JsonStruct, frozen=True):
    """The untested launches of a kernel on one release and target, with the reason."""

    kernel: str
    package: str | None
    toolchain: ToolchainName
    target: str
    reason: NotEmpty
    cells: Count


def why_untested(cell: ObservedCell) -> str | None:
    """Return the reason why a cell is not evidence by itself; None if it is evidence.

    A failure of a made-up launch is evidence if its arguments cannot have caused it: a removed API,
    a module whose import fails for a reason that a release has, a crash of the compiler, an error
    in one of its passes, a front-end error that no other arguments avoid, or one of a launch that a
    newer release's front end accepts.
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
    if cell.stage == "import" and blames_release(code):
        return None
    if cell.stage == "autotune" and code.startswith(_AUTOTUNER):
        return None
    if code.startswith(_RESOURCES):
        return "the made-up sizes need more than the GPU has"
    if code == _FEATURE:
        return "the made-up dtypes may be none that the GPU is used with"
    if _is_refused_source(cell):
        is_avoidable = is_guess_likely(cell) and bool(cell.depends_on)
        if not is_avoidable and (cell.fails_alike or cell.compiles_under):
            return None
        if cell.depends_on:
            names = ", ".join(cell.depends_on[:_MAX_NAMES])
            return f"the kernel's line may need other made-up arguments than these: {names}"
        return "the made-up arguments may not fit the kernel"
    return None


def is_undecided(cell: ObservedCell) -> bool:
    """Return True if a newer release may show that an untested failure is the cell's release's."""
    if cell.stage not in _COMPARABLE or not cell.fails:
        return False
    return _is_refused_source(cell) and why_untested(cell) is not None


def is_guess_likely(cell: ObservedCell) -> bool:
    """Return True for an error that made-up arguments cause although newer releases accept them.

    It is about operands whose types are different, or about tiles of a dot that are too small.
    """
    if cell.stage not in _COMPARABLE:
        return False
    return cell.code == _SMALL_TILES or bool(_MISMATCH_ERROR.search(cell.line))


def _is_refused_source(cell: ObservedCell) -> bool:
    """Return True for an error of the front end, or of the first check of its output."""
    is_verified = cell.stage == _FIRST_PASS and _VERIFIER_ERROR.search(cell.line)
    return cell.stage in _FRONT_END or bool(is_verified)


def separate_untested(
    cells: Iterable[ObservedCell], beside: Iterable[ObservedCell] = ()
) -> tuple[list[ObservedCell], list[ObservedCell]]:
    """Return the cells that count, and those that are untested.

    If another configuration of the launch compiles, one that the autotuner skips or that timed out
    counts like any other. `beside` are more cells of the question, such as those of other shards:
    the failures that all variants of a kernel share are judged over all of them.
    """
    cells = list(cells)
    cells_by_key = {cell.key: cell for cell in (*beside, *cells)}
    compiled_launches = set()
    for cell in cells_by_key.values():
        if cell.compiles:
            compiled_launches.add((cell.place, cell.launch))
    shared_keys = _find_shared_failures(cells_by_key.values())
    counting: list[ObservedCell] = []
    untested_cells: list[ObservedCell] = []
    for cell in cells:
        is_excused = cell.tolerated or cell.verdict is Verdict.UNKNOWN
        is_evidence = why_untested(cell) is None or cell.key in shared_keys
        if is_evidence or (is_excused and (cell.place, cell.launch) in compiled_launches):
            counting.append(cell)
        else:
            untested_cells.append(cell)
    return counting, untested_cells


def _find_shared_failures(cells: Iterable[ObservedCell]) -> set[str]:
    """Return the keys of made-up launches whose failure all launches of their kernel share.

    Such a failure is the kernel's own, whatever was invented.
    """
    kernels: dict[tuple[Any, ...], list[ObservedCell]] = {}
    for cell in cells:
        kernels.setdefault((cell.package, cell.kernel, cell.place), []).append(cell)
    keys: set[str] = set()
    for launches in kernels.values():
        tried_cells = []
        outcomes = set()
        for cell in launches:
            if cell.verdict is not Verdict.SKIPPED:
                tried_cells.append(cell)
                outcomes.add((cell.signature, cell.fails))
        if len(outcomes) == 1 and tried_cells[0].fails and _are_varied(tried_cells):
            keys.update(cell.key for cell in tried_cells)
    return keys


def _are_varied(cells: Sequence[ObservedCell]) -> bool:
    """Return True if every invented part varies between these launches of one kernel.

    Their dtypes and sizes differ, no argument was left out everywhere, and no tensor has
    everywhere an integer dtype that the error names.
    """
    named_dtypes = set(map(find_dtype, _INTEGER_DTYPE.findall(cells[0].line))) - {None}
    dtypes: set[str | None] = set()
    launches: list[dict[str, Any]] = []
    for cell in cells:
        if _LEFT_OUT in cell.line:
            return False
        dtypes.add(cell.dtype)
        if cell.parts.identity:
            launches.append(json.loads(cell.parts.identity)[0])
    if len(dtypes) < 2:
        return False
    for name in set[str]().union(*launches):
        values = [launch.get(name) for launch in launches]
        if values.count(None) == len(values):
            return False
        sizes = set(map(_integer_value, values))
        if len(sizes) == 1 and None not in sizes:
            return False
        tensor_dtypes = set(map(_tensor_dtype, values))
        if len(tensor_dtypes) == 1 and tensor_dtypes <= named_dtypes:
            return False
    return bool(launches)


def _tensor_dtype(argument: Any) -> str | None:
    """Return the dtype of a tensor; None for any other argument."""
    if isinstance(argument, Mapping):
        return argument.get("dtype")
    return None


def _integer_value(argument: Any) -> int | None:
    """Return the integer value of an argument; None for a tensor, a flag or any other."""
    if not isinstance(argument, Mapping):
        return None
    value = argument.get("int", argument.get("constexpr"))
    if type(value) is int:
        return value
    return None


def group_untested(cells: Sequence[ObservedCell]) -> list[UntestedGroup]:
    """Return the untested cells by kernel, place and reason, in order."""
    counts: dict[tuple[str, str | None, str, str, str], int] = {}
    for cell in cells:
        reason = why_untested(cell) or ""
        group = (cell.kernel, cell.package, cell.toolchain, cell.target, reason)
        counts[group] = counts.get(group, 0) + 1
    groups = [UntestedGroup(*group, count) for group, count in counts.items()]
    return sorted(groups, key=_in_order)


def _in_order(group: UntestedGroup) -> tuple[object, ...]:
    place = by_version(group.toolchain), by_target(group.target)
    return *place, group.kernel, group.reason
