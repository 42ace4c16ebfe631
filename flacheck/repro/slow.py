"""Slow compiles (FC921): they end well, and take many times what the same kernel takes on other
releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from flacheck.analysis.slow import CODE, SECONDS, TIMES
from flacheck.model import Record, Verdict
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.oracle import Budget, Compiler, Oracle
from flacheck.repro.versions import Table

# What a reduced compile must still take: enough that a busy machine does not decide.
LEAST_SECONDS = 2.0


def as_slow(record: Record, found: Table) -> Record | None:
    """The record as a finding when it took 10 s and five times the median of the other releases
    that compile it.
    """
    others = [o.seconds for name, o in found.items() if o.compiles and name != record.toolchain]
    if record.verdict is not Verdict.COMPILES or not others or record.seconds < SECONDS:
        return None
    usual = median(others)
    if record.seconds < TIMES * usual:
        return None
    said = f"the compile took {record.seconds:.0f} s, {record.seconds / usual:.0f} times what other releases take"
    return record.with_(
        verdict=Verdict.FAILS, code=CODE, signature=f"{CODE}:-:-:slow", message=said
    )


def quick(found: Table, release: str) -> list[str]:
    """The nearest older and the nearest newer release that are not slow: what must stay so."""
    names, limit = list(found), found[release].seconds / TIMES
    at = names.index(release)
    fast = [name for name in names if found[name].compiles and found[name].seconds <= limit]
    return [n for n in reversed(names[:at]) if n in fast][:1] + [
        n for n in names[at + 1 :] if n in fast
    ][:1]


class SlowOracle(Oracle):
    """Whether a specimen still compiles slowly on its release, and many times faster on the
    contrast releases.
    """

    def __init__(
        self, compilers: Compiler, release: str, contrasts: Sequence[str], budget: Budget
    ) -> None:
        super().__init__(compilers, release, SlowerThan(LEAST_SECONDS), contrasts, budget)

    def _passes(self, specimen: Specimen, release: str) -> bool:
        record = self._ask(specimen, release, None)
        return (
            record.verdict is Verdict.COMPILES
            and record.seconds * TIMES <= self._record(specimen).seconds
        )


class SlowerThan:
    """A compile that ends well, and not before so many seconds."""

    until: str | None = None
    elsewhere: str | None = None

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self, record: Record) -> bool:
        return record.verdict is Verdict.COMPILES and record.seconds >= self._seconds
