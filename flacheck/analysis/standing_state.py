"""The states of a standing, with the numbers that belong to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from flacheck.analysis.observation import ObservedCell
from flacheck.model import Json


class StandingState(str, Enum):
    """The standing of a toolchain and target in a question."""

    # Every configuration of every launch is answered, every kernel has evidence, nothing fails.
    GOOD = "good"
    # Nothing fails, but something was not compiled.
    SCREENED = "screened"
    BAD = "bad"
    # Fewer answers than cells.
    PARTIAL = "partial"
    # No launch compiled.
    NO_RECORD = "no-record"


@dataclass(frozen=True)
class Share:
    """The number of answered items, and of all; None if that is unknown."""

    answered: int
    of: int | None

    @property
    def is_whole(self) -> bool:
        """True if every item is answered."""
        return self.answered == self.of

    def __str__(self) -> str:
        total = "an unknown number" if self.of is None else f"{self.of:,}"
        return f"{self.answered:,} of {total}"

    def to_json(self) -> Json:
        return {"answered": self.answered, "of": self.of}


def add_shares(shares: Iterable[Share]) -> Share:
    """Return the sum of shares; its total is unknown if one is."""
    answered, total = 0, 0
    is_known = True
    for share in shares:
        answered += share.answered
        total += share.of or 0
        is_known &= share.of is not None
    return Share(answered, total if is_known else None)


@dataclass(frozen=True)
class OperatorStanding:
    """The state of a package's public entry point on one toolchain and target.

    `failing` are the failures of its launches that matter.
    """

    name: str
    state: StandingState
    configurations: Share
    failing: tuple[ObservedCell, ...] = ()

    def to_json(self) -> Json:
        return {
            "operator": self.name,
            "standing": self.state.value,
            "configurations": self.configurations.to_json(),
            "codes": sorted({cell.code for cell in self.failing if cell.code}),
        }
