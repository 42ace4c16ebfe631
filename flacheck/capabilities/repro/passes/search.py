"""How a pass searches: it proposes smaller specimens and is told of each whether it is taken."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flacheck.capabilities.repro.kernel.specimen import Specimen

Item = TypeVar("Item")


@dataclass(frozen=True)
class Probe:
    """A question and no proposal: could anything in this specimen fail? It is never taken."""

    specimen: Specimen


# One way of making a specimen smaller: a generator of candidates that is told of each whether it is
# the best specimen now, and of each probe whether it fails at all.
Pass = Callable[[Specimen], Generator["Specimen | Probe", bool, None]]


def name_of(one: Pass) -> str:
    """What a pass is called where people read it."""
    return one.__name__.replace("_", " ")


def first_taken(candidates: Iterable[Specimen]) -> Generator[Specimen, bool, Specimen | None]:
    """Proposes them until one is taken; None when none is."""
    for candidate in candidates:
        if (yield candidate):
            return candidate
    return None


def while_taken(
    best: Specimen, propose: Callable[[Specimen], Iterable[Specimen]]
) -> Generator[Specimen, bool, None]:
    """Proposes again from each specimen that is taken, until none is."""
    taken: Specimen | None = best
    while taken is not None:
        taken = yield from first_taken(propose(taken))


def at_each(
    best: Specimen,
    places: Callable[[Specimen], Sequence[Item]],
    propose: Callable[[Specimen, Item], Iterable[Specimen]],
) -> Generator[Specimen, bool, None]:
    """Proposes for each place; where one is taken, the places are looked up again."""
    position = 0
    while position < len(left := places(best)):
        taken = yield from first_taken(propose(best, left[position]))
        if taken is None:
            position += 1
        else:
            best = taken
