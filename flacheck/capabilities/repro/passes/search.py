"""The search of a pass: it proposes smaller specimens and receives True for each accepted one."""

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flacheck.capabilities.repro.kernel.specimen import Specimen

Item = TypeVar("Item")
# The number of parts in one probe: enough to skip most parts, few enough to compile quickly.
TOGETHER = 12


@dataclass(frozen=True)
class Probe:
    """A specimen that tests if a part of it could fail; a probe is never accepted."""

    specimen: Specimen


# The candidates of a pass: each `yield` returns True if the candidate was accepted.
Proposals = Generator[Specimen, bool, None]
# The candidates of a pass that also tests whole groups of them.
ProposalsAndProbes = Generator["Specimen | Probe", bool, None]
# A generator of smaller specimens. For each candidate it receives True if that is the best specimen
# now, and for each probe True if it fails.
Pass = Callable[[Specimen], ProposalsAndProbes]


def name_of(one: Pass) -> str:
    """Return the readable name of a pass."""
    return one.__name__.replace("_", " ")


def propose_until_accepted(
    candidates: Iterable[Specimen],
) -> Generator[Specimen, bool, Specimen | None]:
    """Propose candidates until one is accepted; return it, or None."""
    for candidate in candidates:
        if (yield candidate):
            return candidate
    return None


def propose_while_accepted(
    best: Specimen, propose: Callable[[Specimen], Iterable[Specimen]]
) -> Proposals:
    """Propose again from each accepted specimen, until none is accepted."""
    current: Specimen | None = best
    while current is not None:
        current = yield from propose_until_accepted(propose(current))


def propose_at_each(
    best: Specimen,
    places: Callable[[Specimen], Sequence[Item]],
    propose: Callable[[Specimen, Item], Iterable[Specimen]],
) -> Proposals:
    """Propose for each place; look the places up again after each accepted specimen."""
    position = 0
    remaining = places(best)
    while position < len(remaining):
        smaller = yield from propose_until_accepted(propose(best, remaining[position]))
        if smaller is None:
            position += 1
        else:
            best = smaller
            remaining = places(best)


def propose_in_batches(
    parts: Iterator[Item], build: Callable[[Sequence[Item]], Specimen], size: int
) -> ProposalsAndProbes:
    """Propose a kernel of each part until one is accepted; a probe holds `size` parts."""
    batch = list(itertools.islice(parts, size))
    while batch:
        if (yield from _propose_batch(batch, build)):
            return
        batch = list(itertools.islice(parts, size))


def _propose_batch(
    parts: Sequence[Item], build: Callable[[Sequence[Item]], Specimen], hides: bool = False
) -> Generator[Specimen | Probe, bool, bool]:
    """Propose the kernel of each part in turn until one is accepted; return True if one was.

    Several parts are first probed as one kernel: if it compiles, none of them fails. With `hides`,
    an earlier probe of these parts failed.
    """
    if len(parts) == 1:
        return (yield build(parts))
    if not hides and not (yield Probe(build(parts))):
        return False
    middle = len(parts) // 2
    first, second = parts[:middle], parts[middle:]
    in_first = yield Probe(build(first))
    if in_first and (yield from _propose_batch(first, build, hides=True)):
        return True
    return (yield from _propose_batch(second, build, hides=not in_first))
