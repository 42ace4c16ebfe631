"""Untested cells: invented launches whose outcome the invention may have caused.

They are derived when a question is answered, never stored, and count neither for a release nor
against it.
"""

from collections.abc import Iterable, Sequence

from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version
from flacheck.model import Verdict
from flacheck.model.wire import Count, JsonStruct, NotEmpty, ToolchainName
from flacheck.rules import UNCLASSIFIED, blames_release

# A toolchain that cannot be installed proves nothing about a launch.
_NO_WHEEL = "FC903"
# The invented sizes decide if a tile fits into a GPU's memory.
_RESOURCES = "FC5"
# The invented dtypes decide if a GPU has the instruction.
_FEATURE = "FC401"
# The invented dtypes decide how many registers inline assembly has to name.
_ASSEMBLY = "FC314"
# No fp8 tensor is invented: the package's own code passes the type.
_SMALL_FLOAT = "FC107"
# Stages that depend on a kernel's own code and its arguments: the front end, and the first passes,
# which verify its output. An autotuner's run is in the front end until the first pass begins.
_FRONT_END = ("import", "ast", "call", "autotune", "ttir")


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

    A failure of a launch whose host code ran is evidence. A failure of a made-up launch is evidence
    if the arguments cannot have caused it: an API that the release lacks, a failure that a rule
    blames on releases, an fp8 type that the GPU lacks, a crash of the compiler that no dtype
    causes, an error in one of its later passes.
    """
    if not cell.made_up or cell.verdict in (Verdict.COMPILES, Verdict.SKIPPED):
        return None
    if cell.verdict is Verdict.UNKNOWN:
        if cell.code == _NO_WHEEL:
            return None
        return cell.reason or "no verdict"
    code = cell.code or UNCLASSIFIED
    if code == _FEATURE:
        return "the made-up dtypes may not occur on this GPU"
    if code == _ASSEMBLY:
        return "the made-up dtypes do not fit the kernel's inline assembly"
    if cell.api is not None or cell.is_crash or blames_release(code) or code == _SMALL_FLOAT:
        return None
    if code.startswith(_RESOURCES):
        return "the made-up sizes need more than the GPU has"
    if cell.stage in _FRONT_END:
        return "the made-up arguments may not fit the kernel"
    return None


def separate_untested(
    cells: Iterable[ObservedCell], beside: Iterable[ObservedCell] = ()
) -> tuple[list[ObservedCell], list[ObservedCell]]:
    """Return the cells that count, and those that are untested.

    If another configuration of the launch compiles, a configuration that the autotuner skips or
    that timed out counts like any other. `beside` are more cells of the question, such as those of
    other shards.
    """
    cells = list(cells)
    compiled_launches = set()
    for cell in (*beside, *cells):
        if cell.compiles:
            compiled_launches.add((cell.place, cell.launch))
    counting: list[ObservedCell] = []
    untested_cells: list[ObservedCell] = []
    for cell in cells:
        is_excused = cell.tolerated or cell.verdict is Verdict.UNKNOWN
        is_evidence = why_untested(cell) is None
        if is_evidence or (is_excused and (cell.place, cell.launch) in compiled_launches):
            counting.append(cell)
        else:
            untested_cells.append(cell)
    return counting, untested_cells


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
