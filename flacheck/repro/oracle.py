"""Does a specimen still show the failure, and only on the releases that it should? Each variant
answers for one kind of failure; the counting, the memory and the budget are common to all.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from flacheck.model import Record, Verdict
from flacheck.repro.compilers import Compilers
from flacheck.repro.kernel.specimen import Specimen

STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco")

# Shared and tensor memory are laid out before the assembler runs.
_KNOWN_EARLY = ("FC501", "FC504")


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
        """Count one compile; raises BudgetSpent when there is none left."""
        if self.compiles is not None and self.ran >= self.compiles:
            raise BudgetSpent
        if self.seconds is not None and self.elapsed >= self.seconds:
            raise BudgetSpent
        self.ran += 1

    def lift(self) -> None:
        """Allow the few compiles that the end takes."""
        self.compiles = self.seconds = None

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started


class Failure(Protocol):
    """What counts as the same failure. `until` is the last stage that has to run to see it,
    `elsewhere` the last that must end well on other releases; None for all.
    """

    @property
    def until(self) -> str | None: ...

    @property
    def elsewhere(self) -> str | None: ...

    def __call__(self, record: Record) -> bool: ...


@dataclass(frozen=True)
class SameSignature:
    """The same code, stage, function and message: the identity of a failure."""

    signature: str

    @property
    def until(self) -> str | None:
        stage = self.signature.split(":")[1]
        return stage if stage in STAGES else self.elsewhere

    @property
    def elsewhere(self) -> str | None:
        return "llir" if self.signature.startswith(_KNOWN_EARLY) else None

    def __call__(self, record: Record) -> bool:
        return record.verdict is Verdict.FAILS and record.signature == self.signature


@dataclass(frozen=True)
class SameCode:
    """The same code. An autotuner's faults name the keys they are about, and a reduction has fewer
    of them: there the message is no part of the identity.
    """

    code: str
    until: str | None = None
    elsewhere: str | None = None

    def __call__(self, record: Record) -> bool:
        return record.verdict is Verdict.FAILS and record.code == self.code


class Compiler(Protocol):
    """What an oracle asks; the engine, or a table in a test."""

    def compile(self, specimen: Specimen, release: str, until: str | None = None) -> Record: ...


class Oracle:
    """Whether a specimen shows the failure on `release` and compiles on the contrast releases.

    The failing release is asked first and only up to the failing stage: that rejects most
    candidates. Every answer is remembered. `asked` counts specimens, `slipped` those that failed
    otherwise than the original.
    """

    def __init__(
        self,
        compilers: Compiler,
        release: str,
        failure: Failure,
        contrasts: Sequence[str],
        budget: Budget,
    ) -> None:
        self._compilers, self._release, self.contrasts = compilers, release, tuple(contrasts)
        self._failure, self.budget = failure, budget
        self.slips: Counter[str] = Counter()
        self.contrast_refusals = 0
        self._here: dict[str, Record] = {}
        self._elsewhere: dict[str, bool] = {}

    def __call__(self, specimen: Specimen) -> bool:
        return self.fails(specimen) and self._passes_elsewhere(specimen)

    def fails(self, specimen: Specimen) -> bool:
        """Whether it shows the failure on its release, whatever others make of it."""
        known = specimen.key in self._here
        record = self._record(specimen)
        if self._failure(record):
            return True
        if not known and record.verdict is Verdict.FAILS and record.signature:
            self.slips[record.signature] += 1
        return False

    def hides(self, specimen: Specimen) -> bool:
        """Whether anything in it could fail: false when the release compiles all of it as it
        should.
        """
        record = self._record(specimen)
        return self._failure(record) or record.verdict is not Verdict.COMPILES

    @property
    def asked(self) -> int:
        return len(self._here)

    @property
    def slipped(self) -> int:
        return sum(self.slips.values()) + self.contrast_refusals

    def _record(self, specimen: Specimen) -> Record:
        """What the failing release makes of it, as far as the failing stage."""
        if specimen.key not in self._here:
            self._here[specimen.key] = self._ask(specimen, self._release, self._failure.until)
        return self._here[specimen.key]

    def _ask(self, specimen: Specimen, release: str, until: str | None) -> Record:
        self.budget.spend()
        return self._compilers.compile(specimen, release, until)

    def _passes_elsewhere(self, specimen: Specimen) -> bool:
        if specimen.key not in self._elsewhere:
            passes = all(self._passes(specimen, release) for release in self.contrasts)
            self._elsewhere[specimen.key] = passes
            self.contrast_refusals += not passes
        return self._elsewhere[specimen.key]

    def _passes(self, specimen: Specimen, release: str) -> bool:
        return self._ask(specimen, release, self._failure.elsewhere).verdict is Verdict.COMPILES


__all__ = ["STAGES", "Budget", "BudgetSpent", "Compiler", "Compilers", "Oracle"]
