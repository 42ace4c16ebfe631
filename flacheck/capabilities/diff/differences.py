"""The kinds of change between the records of a pair."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flacheck.capabilities.diff.matching import Pair
from flacheck.evidence.analysis.order import split
from flacheck.model import Record, Verdict

# Both must hold, because times of a shared machine vary, short ones most.
SLOWER_TIMES = 3.0
SLOWER_SECONDS = 5.0
# The units in which a multiprocessor allocates; smaller growth is free. 256 registers of a warp are
# 8 of a thread; shared memory is allocated in 128 bytes (NVIDIA's occupancy calculator).
_UNITS = {"registers": 8, "shared": 128, "spills": 1}
# A stack also holds arrays of the source, so it is compared for each function, where the growth can
# be traced.
_OF_FUNCTIONS = {**_UNITS, "stack": 1}
# The resources that grow, each as (before, after).
ResourceGrowth = Mapping[str, tuple[int, int]]


class DifferenceKind(Enum):
    """The kind of change of a kernel in a dtype, or of one cell."""

    REGRESSED = "regressed"
    MENDED = "mended"
    CHANGED_CAUSE = "changed_cause"
    UNCHANGED = "unchanged"
    # One side lacks a verdict.
    UNKNOWN = "unknown"
    # A launch with invented arguments, which may have caused its failure.
    UNTESTED = "untested"
    ONLY_FROM = "only_from"
    ONLY_TO = "only_to"


@dataclass(frozen=True)
class Difference:
    """A pair with the kind of its change.

    Attributes:
        pair: The records.
        kind: The kind.
        reason: The reason for a missing verdict or record.
        is_waived: True for a failure that a waiver accepts.
        slower: How many times as long the compile takes, if it is slower.
        more: The resources that grow.
        functions: The resources that grow of each function of a unit.
    """

    pair: Pair
    kind: DifferenceKind
    reason: str | None = None
    is_waived: bool = False
    slower: float | None = None
    more: ResourceGrowth | None = None
    functions: Mapping[str, ResourceGrowth] = field(default_factory=dict)

    @property
    def takes_more(self) -> bool:
        """True if TO takes more resources."""
        return bool(self.more or self.functions)

    @property
    def record(self) -> Record:
        """The record of TO, or of FROM if TO has none."""
        return self.pair.record

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        return self.record.kernel

    @property
    def counts_against(self) -> bool:
        """True for a regression without a waiver."""
        return self.kind is DifferenceKind.REGRESSED and not self.is_waived


Reason = Callable[[Record], str]


def differences(
    pairs: Iterable[Pair],
    untested: Mapping[str, str],
    waives: Callable[[Record], bool],
    missing_after: Reason,
    missing_before: Reason,
) -> list[Difference]:
    """Return the change of each pair.

    Args:
        pairs: The pairs.
        untested: The reasons of records that are not evidence, by key.
        waives: True for failures that are waived.
        missing_after: Returns the reason why a kernel is not on the side TO.
        missing_before: Returns the reason why a kernel is not on the side FROM.
    """
    changes = []
    for pair in pairs:
        before, after = pair.before, pair.after
        if after is None:
            assert before is not None
            changes.append(Difference(pair, DifferenceKind.ONLY_FROM, missing_after(before)))
        elif before is None:
            changes.append(Difference(pair, DifferenceKind.ONLY_TO, missing_before(after)))
        elif before.key in untested or after.key in untested:
            changes.append(_untested_change(pair, before, after, untested))
        else:
            changes.append(_compare(pair, before, after, waives))
    return changes


def _untested_change(
    pair: Pair, before: Record, after: Record, untested: Mapping[str, str]
) -> Difference:
    side = before
    if after.key in untested:
        side = after
    reason = f"under {side.toolchain}: {untested[side.key]}"
    return Difference(pair, DifferenceKind.UNTESTED, reason)


def _compare(
    pair: Pair, before: Record, after: Record, waives: Callable[[Record], bool]
) -> Difference:
    """Return the change between two records that are evidence."""
    compiles_before = before.verdict is Verdict.COMPILES
    compiles_after = after.verdict is Verdict.COMPILES
    if compiles_before and compiles_after:
        # Different configurations have different costs under one release too.
        if not pair.exact:
            return Difference(pair, DifferenceKind.UNCHANGED, pair.note)
        return Difference(
            pair,
            DifferenceKind.UNCHANGED,
            slower=_slower(before, after),
            more=_more(before.resources, after.resources, _UNITS) or None,
            functions=_functions(before, after),
        )
    for record in (before, after):
        if record.verdict is Verdict.UNKNOWN:
            reason = f"under {record.toolchain}: {record.reason or 'no verdict'}"
            return Difference(pair, DifferenceKind.UNKNOWN, reason)
    if compiles_before:
        # TO may also have skipped a target that it does not support.
        return Difference(pair, DifferenceKind.REGRESSED, after.reason, is_waived=waives(after))
    if compiles_after:
        return Difference(pair, DifferenceKind.MENDED, before.reason)
    if (before.verdict, before.signature) == (after.verdict, after.signature):
        return Difference(pair, DifferenceKind.UNCHANGED, after.reason)
    return Difference(pair, DifferenceKind.CHANGED_CAUSE, after.reason)


def _slower(before: Record, after: Record) -> float | None:
    """Return how many times as long TO takes; None if it is not slower."""
    # Another compiler does other work.
    if split(before.toolchain)[0] != split(after.toolchain)[0]:
        return None
    longer = after.seconds - before.seconds
    if before.seconds <= 0 or longer < SLOWER_SECONDS:
        return None
    times = after.seconds / before.seconds
    if times < SLOWER_TIMES:
        return None
    return times


def _more(
    before: Mapping[str, Any], after: Mapping[str, Any], units: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Return the resources that grow by an allocation unit or more."""
    growth = {}
    for name, unit in units.items():
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            continue
        if -(-new // unit) > -(-old // unit):
            growth[name] = (old, new)
    return growth


def _functions(before: Record, after: Record) -> dict[str, ResourceGrowth]:
    """Return the resources that grow of each function that both sides have, by name."""
    old_functions = {each["name"]: each for each in before.resources.get("functions", ())}
    growth: dict[str, ResourceGrowth] = {}
    for function in after.resources.get("functions", ()):
        old = old_functions.get(function["name"])
        if old is None:
            continue
        more = _more(old, function, _OF_FUNCTIONS)
        if more:
            growth[function["name"]] = more
    return growth
