"""The states of a standing, with the numbers that belong to them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from flacheck.model.wire import JsonStruct, Natural


class StandingState(str, Enum):
    """The standing of a toolchain and target in a question."""

    # Every configuration of every launch is answered, every kernel has evidence, nothing fails.
    GOOD = "good"
    # Nothing fails, but something was not compiled.
    SCREENED = "screened"
    BAD = "bad"
    # Some cell lacks a record.
    PARTIAL = "partial"
    # No launch compiled.
    NO_RECORD = "no-record"


class Share(JsonStruct, frozen=True):
    """The number of answered items, and of all; None if that is unknown."""

    answered: Natural
    of: Natural | None

    @property
    def is_whole(self) -> bool:
        """True if every item is answered."""
        return self.answered == self.of

    def describe(self, noun: str) -> str:
        """Return `971 of 10,340 configurations`."""
        if self.of is None:
            return f"{self.answered:,} of an unknown number of {noun}"
        return f"{self} {noun}"

    def __str__(self) -> str:
        if self.of is None:
            return f"{self.answered:,} of ?"
        return f"{self.answered:,} of {self.of:,}"


def describe_extent(configurations: Share, kernels: Share) -> str:
    """Return `971 of 10,340 configurations, 236 of 243 kernels`."""
    return f"{configurations.describe('configurations')}, {kernels.describe('kernels')}"


def add_shares(shares: Iterable[Share]) -> Share:
    """Return the sum of shares; its total is unknown if one is."""
    answered, total = 0, 0
    is_known = True
    for share in shares:
        answered += share.answered
        total += share.of or 0
        is_known &= share.of is not None
    return Share(answered, total if is_known else None)
