"""Pairs of records of two sides."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.order import split
from flacheck.model import Record, Verdict

# Kernel, dtype and target.
Group = tuple[str, str | None, str]
# From the best verdict to the worst.
_ORDER = (Verdict.COMPILES, Verdict.FAILS, Verdict.UNKNOWN, Verdict.SKIPPED)


@dataclass(frozen=True)
class Pair:
    """The records of one cell on both sides (`exact`), or the best ones of a kernel and dtype.

    A record is None if the side does not have that kernel and dtype. `note` is the reason why
    another configuration replaces TO's own.
    """

    before: Record | None
    after: Record | None
    exact: bool
    note: str | None = None

    @property
    def record(self) -> Record:
        """The record of TO, or of FROM if TO has none."""
        record = self.after or self.before
        assert record is not None
        return record

    @property
    def group(self) -> Group:
        """Kernel, dtype and target."""
        return group_of(self.record)


def group_of(record: Record) -> Group:
    return record.kernel, record.dtype, record.target


def _identity(record: Record, ignored_options: Collection[str]) -> str:
    # Records that were read from a file do not hold the stage of their cell.
    return record.cell.identity(["package", "toolchain", "stage"], ignored_options)


def match(before: Sequence[Record], after: Sequence[Record]) -> list[Pair]:
    """Pair the same cells, and the other records by kernel, dtype and target.

    The rest of a kernel and dtype is compared with the best record of the other side; it is on one
    side alone only if the other side lacks it.
    """
    own = _own_options(before, after)
    there = {_identity(record, own): record for record in after}
    pairs, rest = [], []
    identities = set()
    for record in before:
        identity = _identity(record, own)
        if identity in there:
            identities.add(identity)
            pairs.append(Pair(record, there[identity], exact=True))
        else:
            rest.append(record)
    rest_after = []
    for identity, record in there.items():
        if identity not in identities:
            rest_after.append(record)
    return pairs + _by_group(rest, rest_after, _best_of(before), _best_of(after))


def _own_options(before: Sequence[Record], after: Sequence[Record]) -> set[str]:
    """Return the options that only one of two different compilers has.

    For example, only nvcc has a host compiler. Releases of one compiler have the same options.
    """
    names = [{split(record.toolchain)[0] for record in side} for side in (before, after)]
    if names[0] & names[1]:
        return set()
    options: list[set[str]] = []
    for side in (before, after):
        names_of_side: set[str] = set()
        for record in side:
            names_of_side.update(record.options)
        options.append(names_of_side)
    return options[0] ^ options[1]


def _by_group(
    rest: Iterable[Record],
    rest_after: Iterable[Record],
    before: Mapping[Group, Record],
    after: Mapping[Group, Record],
) -> list[Pair]:
    remaining = (_best_of(rest), _best_of(rest_after))
    pairs = []
    for group in dict.fromkeys([*remaining[0], *remaining[1]]):
        first = remaining[0].get(group) or before.get(group)
        second = remaining[1].get(group) or after.get(group)
        pairs.append(Pair(first, second, exact=False))
    return pairs


def _best_of(records: Iterable[Record]) -> dict[Group, Record]:
    """Return the first of the best records of each kernel, dtype and target."""
    groups = group_by_key((group_of(record), record) for record in records)
    return {group: min(there, key=_rank) for group, there in groups.items()}


def _rank(record: Record) -> tuple[int, bool]:
    # A tolerated failure is better than one that ends a run.
    return _ORDER.index(record.verdict), not record.tolerated
