"""The search of a pass: it proposes smaller specimens and receives True for each accepted one."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flacheck.capabilities.repro.kernel.specimen import Specimen

Item = TypeVar("Item")


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
