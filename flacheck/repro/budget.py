"""What a reduction may spend."""

import time
from dataclasses import dataclass, field


class BudgetSpent(Exception):
    """No compile is left; the best so far stands."""


@dataclass
class Budget:
    """What reduction may spend: compiles, or seconds; None is no limit."""

    compiles: int | None = None
    seconds: float | None = None
    ran: int = 0
    _started: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Count seconds from now on."""
        self._started = time.monotonic()

    def spend(self) -> None:
        """Count one compile; raises BudgetSpent when none is left."""
        if self.compiles is not None and self.ran >= self.compiles:
            raise BudgetSpent
        if self.seconds is not None and self.elapsed >= self.seconds:
            raise BudgetSpent
        self.ran += 1

    @property
    def elapsed(self) -> float:
        """Seconds since `begin`."""
        return time.monotonic() - self._started
