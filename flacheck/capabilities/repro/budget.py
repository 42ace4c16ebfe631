"""What a reproduction may spend, from the first compile to the last run of the script."""

import threading
import time
from dataclasses import dataclass, field
from math import inf

from flacheck.errors import Exit, FlacheckError


class BudgetSpent(FlacheckError):
    """Nothing is left to spend; the best so far stands."""

    exit_code = Exit.INCOMPLETE

    def __init__(self) -> None:
        super().__init__(
            "the budget was spent before the failure was reproduced; allow more with --budget"
        )


@dataclass
class Budget:
    """What the whole command may spend: compiles, or seconds since it began; None is no limit.
    While `reserve_compiles` and `reserve_seconds` are kept back, only the rest may be spent: they
    are for the verification at the end. `spent` says whether anything was refused."""

    compiles: int | None = None
    seconds: float | None = None
    reserve_compiles: int = 0
    reserve_seconds: float = 0.0
    ran: int = 0
    spent: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _start: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Raise BudgetSpent when the time is over; to be asked wherever work may go on for long."""
        if self.seconds_left <= 0:
            self.spent = True
            raise BudgetSpent

    def spend(self) -> None:
        """Count one compile; raises BudgetSpent when none is left."""
        self.check()
        # Releases are asked side by side.
        with self._lock:
            if self.compiles is not None and self.ran >= self.compiles - self.reserve_compiles:
                self.spent = True
                raise BudgetSpent
            self.ran += 1

    def keep_back(self, compiles: int, seconds: float) -> None:
        """Keep so much for the end, of a small budget at most half."""
        self.reserve_compiles = compiles
        if self.compiles is not None:
            self.reserve_compiles = min(compiles, self.compiles // 2)
        self.reserve_seconds = seconds
        if self.seconds is not None:
            self.reserve_seconds = min(seconds, self.seconds / 2)

    def release(self) -> None:
        """The end has come: what was kept back may be spent."""
        self.reserve_compiles, self.reserve_seconds = 0, 0.0

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self._start

    @property
    def seconds_left(self) -> float:
        """Until the time is over; infinite where no time was set."""
        if self.seconds is None:
            return inf
        return self.seconds - self.reserve_seconds - self.elapsed_seconds
