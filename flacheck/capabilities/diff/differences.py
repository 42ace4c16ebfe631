"""What a pair of records comes to: the kinds of change."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flacheck.analysis.order import split
from flacheck.capabilities.diff.matching import Pair
from flacheck.model import Json, Record, Verdict

# A compile is slower when both hold: times of a shared machine vary, short ones most.
SLOWER_TIMES = 3.0
SLOWER_SECONDS = 5.0
# What a multiprocessor hands out at a time: below that a kernel takes no more than before. 256
# registers a warp are 8 a thread; shared memory comes in 128 bytes (NVIDIA's occupancy calculator).
_UNITS = {"registers": 8, "shared": 128, "spills": 1}
# A stack also holds what a source keeps there on purpose, such as an array: it is compared function
# by function, where its growth can be looked up.
_OF_FUNCTIONS = {**_UNITS, "stack": 1}
# Resources that TO takes more of, each as (before, after).
ResourceGrowth = Mapping[str, tuple[int, int]]


class DifferenceKind(Enum):
    """What became of a kernel in a dtype, or of one cell."""

    REGRESSED = "regressed"
    MENDED = "mended"
    CHANGED_CAUSE = "changed_cause"
    UNCHANGED = "unchanged"
    # One side has no verdict.
    UNKNOWN = "unknown"
    # A launch that flacheck made up, failing in a way that its arguments may have caused.
    UNTESTED = "untested"
    ONLY_FROM = "only_from"
    ONLY_TO = "only_to"


@dataclass(frozen=True)
class Difference:
    """A pair with its kind. `reason` says why a side gave no verdict, or is not there; `is_waived`
    marks a failure that the project lets pass. `slower` and `more` speak of two compiles: how many
    times the seconds, and the resources that TO takes more of; `functions` says the latter of each
    function of a unit that takes more."""

    pair: Pair
    kind: DifferenceKind
    reason: str | None = None
    is_waived: bool = False
    slower: float | None = None
    more: ResourceGrowth | None = None
    functions: Mapping[str, ResourceGrowth] = field(default_factory=dict)

    @property
    def takes_more(self) -> bool:
        return bool(self.more or self.functions)

    @property
    def record(self) -> Record:
        return self.pair.record

    @property
    def kernel(self) -> str:
        return self.record.kernel

    @property
    def counts_against(self) -> bool:
        """Whether it is a regression that nobody waived."""
        return self.kind is DifferenceKind.REGRESSED and not self.is_waived

    def to_json(self) -> Json:
        """A row of flacheck.diff/1."""
        record = self.record
        return {
            "kernel": record.kernel,
            "package": record.package,
            "dtype": record.dtype,
            "target": record.target,
            "exact": self.pair.exact,
            "reason": self.reason,
            "waived": self.is_waived,
            "from": _side(self.pair.before),
            "to": _side(self.pair.after),
        }


def _side(record: Record | None) -> Json | None:
    if record is None:
        return None
    resources = {name: record.resources.get(name) for name in _UNITS}
    return {
        "key": record.key,
        "toolchain": record.toolchain,
        "options": dict(record.options),
        "verdict": record.verdict.value,
        "code": record.code,
        "signature": record.signature,
        "message": record.message.partition("\n")[0],
        "reason": record.reason,
        "seconds": record.seconds,
        "resources": resources,
    }


Reason = Callable[[Record], str]


def differences(
    pairs: Iterable[Pair],
    untested: Mapping[str, str],
    waives: Callable[[Record], bool],
    missing_after: Reason,
    missing_before: Reason,
) -> list[Difference]:
    """What each pair comes to. `untested` are keys of records that are no evidence, with the
    reason; `missing_after` and `missing_before` say why a kernel is not on TO's, or FROM's, side.
    """
    made = []
    for pair in pairs:
        before, after = pair.before, pair.after
        if after is None:
            assert before is not None
            made.append(Difference(pair, DifferenceKind.ONLY_FROM, missing_after(before)))
        elif before is None:
            made.append(Difference(pair, DifferenceKind.ONLY_TO, missing_before(after)))
        elif before.key in untested or after.key in untested:
            made.append(_untested(pair, before, after, untested))
        else:
            made.append(_compared(pair, before, after, waives))
    return made


def _untested(pair: Pair, before: Record, after: Record, untested: Mapping[str, str]) -> Difference:
    side = before
    if after.key in untested:
        side = after
    reason = f"under {side.toolchain}: {untested[side.key]}"
    return Difference(pair, DifferenceKind.UNTESTED, reason)


def _compared(
    pair: Pair, before: Record, after: Record, waives: Callable[[Record], bool]
) -> Difference:
    """The change between two records that are evidence."""
    compiled, compiles = (each.verdict is Verdict.COMPILES for each in (before, after))
    if compiled and compiles:
        # Two configurations differ in what they cost whatever the release.
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
    if compiled:
        # A target that the older release does not know is as good as lost.
        return Difference(pair, DifferenceKind.REGRESSED, after.reason, is_waived=waives(after))
    if compiles:
        return Difference(pair, DifferenceKind.MENDED, before.reason)
    if (before.verdict, before.signature) == (after.verdict, after.signature):
        return Difference(pair, DifferenceKind.UNCHANGED, after.reason)
    return Difference(pair, DifferenceKind.CHANGED_CAUSE, after.reason)


def _slower(before: Record, after: Record) -> float | None:
    """How many times as long TO takes, None where that is no news."""
    # Another compiler does another amount of work: NVRTC compiles no host code.
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
    """The resources that TO takes more of, in units that a GPU hands out."""
    grown = {}
    for name, unit in units.items():
        held: tuple[Any, Any] = (before.get(name), after.get(name))
        if None in held:
            continue
        old, new = held
        if -(-new // unit) > -(-old // unit):
            grown[name] = (old, new)
    return grown


def _functions(before: Record, after: Record) -> dict[str, ResourceGrowth]:
    """The functions that both sides have and that take more under TO, by name."""
    known = {each["name"]: each for each in before.resources.get("functions", ())}
    compared = {
        each["name"]: _more(known[each["name"]], each, _OF_FUNCTIONS)
        for each in after.resources.get("functions", ())
        if each["name"] in known
    }
    return {name: more for name, more in compared.items() if more}
