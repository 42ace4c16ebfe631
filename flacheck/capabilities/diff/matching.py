"""Which records of two sides belong together."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.order import split
from flacheck.model import Record, Verdict, canonical

Identity = tuple[str, str, str, str]
# A kernel in a dtype on a target; the kernel's module says its form.
Group = tuple[str, str | None, str]
# From the best verdict to the worst.
_ORDER = (Verdict.COMPILES, Verdict.FAILS, Verdict.UNKNOWN, Verdict.SKIPPED)


@dataclass(frozen=True)
class Pair:
    """What the two sides know of one cell (`exact`), or of one kernel and dtype by the best verdict
    of each; None for a side that knows nothing of that kernel and dtype. `note` says why another
    configuration stands in for TO's own."""

    before: Record | None
    after: Record | None
    exact: bool
    note: str | None = None

    @property
    def record(self) -> Record:
        """The record of the side that there is, TO's of both."""
        record = self.after or self.before
        assert record is not None
        return record

    @property
    def group(self) -> Group:
        return group_of(self.record)


def identity_of(record: Record, left_out: Collection[str] = ()) -> Identity:
    """A cell without its compiler and its kernel's source: what it has in common with the same
    cell of the other side. Options that the other side's compiler has not are `left_out`."""
    launch = None
    if record.launch is not None:
        launch = record.launch.to_json()
    options = {name: value for name, value in record.options.items() if name not in left_out}
    return record.kernel, record.target, canonical(launch), canonical(options)


def group_of(record: Record) -> Group:
    return record.kernel, record.dtype, record.target


def match(before: Sequence[Record], after: Sequence[Record]) -> list[Pair]:
    """The same cells as pairs; what remains by kernel, dtype and target with the best of each side.

    A kernel and dtype of which one side has cells left over is compared with the best that the
    other side knows of it; only where that is nothing does it stand on one side alone.
    """
    own = _own_options(before, after)
    there = {identity_of(record, own): record for record in after}
    pairs, rest = [], []
    matched = set()
    for record in before:
        identity = identity_of(record, own)
        if identity in there:
            matched.add(identity)
            pairs.append(Pair(record, there[identity], exact=True))
        else:
            rest.append(record)
    left = [record for identity, record in there.items() if identity not in matched]
    return pairs + _by_group(rest, left, _best_of(before), _best_of(after))


def _own_options(before: Sequence[Record], after: Sequence[Record]) -> set[str]:
    """Options that only one of two compilers has, and that tell no cells apart: nvcc has a host
    compiler, NVRTC has none. Releases of one compiler have the same."""
    names = [{split(record.toolchain)[0] for record in side} for side in (before, after)]
    if names[0] & names[1]:
        return set()
    options = [{option for record in side for option in record.options} for side in (before, after)]
    return options[0] ^ options[1]


def _by_group(
    rest: Iterable[Record],
    left: Iterable[Record],
    before: Mapping[Group, Record],
    after: Mapping[Group, Record],
) -> list[Pair]:
    remaining = (_best_of(rest), _best_of(left))
    pairs = []
    for group in dict.fromkeys([*remaining[0], *remaining[1]]):
        first = remaining[0].get(group) or before.get(group)
        second = remaining[1].get(group) or after.get(group)
        pairs.append(Pair(first, second, exact=False))
    return pairs


def _best_of(records: Iterable[Record]) -> dict[Group, Record]:
    """The best record of each kernel, dtype and target; of equally good ones the first."""
    groups = group_by_key((group_of(record), record) for record in records)
    return {group: min(there, key=_rank) for group, there in groups.items()}


def _rank(record: Record) -> tuple[int, bool]:
    # A tolerated failure is better than one that ends a run.
    return _ORDER.index(record.verdict), not record.tolerated
