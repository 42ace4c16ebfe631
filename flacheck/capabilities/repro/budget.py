"""The budget of a reproduction, from the first compile to the last run of the script."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

from flacheck.errors import Exit, FlacheckError


class BudgetSpent(FlacheckError):
    """The budget is spent; the best specimen so far is the result."""

    exit_code = Exit.INCOMPLETE

    def __init__(self) -> None:
        super().__init__(
            "the budget was spent before the failure was reproduced; allow more with --budget"
        )


@dataclass
class Budget:
    """The budget of the whole command: compiles, or seconds since its start; None means unlimited.

    `reserve_compiles` and `reserve_seconds` are held back for the verification at the end. `spent`
    is True after a refusal.
    """

    compiles: int | None = None
    seconds: float | None = None
    reserve_compiles: int = 0
    reserve_seconds: float = 0.0
    ran: int = 0
    spent: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _start: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Raise BudgetSpent if the time is over; long work calls this repeatedly."""
        if self.seconds_left <= 0:
            self.spent = True
            raise BudgetSpent

    def spend(self) -> None:
        """Count one compile; raise BudgetSpent if none is left."""
        self.check()
        # Releases compile in parallel.
        with self._lock:
            if self.compiles is not None and self.ran >= self.compiles - self.reserve_compiles:
                self.spent = True
                raise BudgetSpent
            self.ran += 1

    def keep_back(self, compiles: int, seconds: float) -> None:
        """Hold back compiles and seconds for the end, but at most half of the budget."""
        self.reserve_compiles = compiles
        if self.compiles is not None:
            self.reserve_compiles = min(compiles, self.compiles // 2)
        self.reserve_seconds = seconds
        if self.seconds is not None:
            self.reserve_seconds = min(seconds, self.seconds / 2)

    def release(self) -> None:
        """Release the reserve for the verification."""
        self.reserve_compiles, self.reserve_seconds = 0, 0.0

    @contextmanager
    def half_reserved(self) -> Iterator[None]:
        """Hold back at least half of the budget inside the `with` block."""
        compiles, seconds = self.reserve_compiles, self.reserve_seconds
        if self.compiles is not None:
            self.reserve_compiles = max(compiles, self.compiles // 2)
        if self.seconds is not None:
            self.reserve_seconds = max(seconds, self.seconds / 2)
        try:
            yield
        finally:
            self.reserve_compiles, self.reserve_seconds = compiles, seconds
            self.spent = False

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self._start

    @property
    def seconds_left(self) -> float:
        """Seconds until the time is over; infinite without a limit."""
        if self.seconds is None:
            return inf
        return self.seconds - self.reserve_seconds - self.elapsed_seconds

    @property
    def share(self) -> float:
        """The part of the budget that is used, from 0 to 1; 0 without a limit."""
        if self.seconds is not None:
            return min(self.elapsed_seconds / self.seconds, 1.0)
        if self.compiles:
            return min(self.ran / self.compiles, 1.0)
        return 0.0

    @property
    def most_seconds_left(self) -> float:
        """Seconds until the budget is used at the pace so far; infinite without a pace."""
        if not self.share:
            return inf
        return self.elapsed_seconds * (1 / self.share - 1)
